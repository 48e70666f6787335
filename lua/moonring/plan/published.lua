--- The longest sequences that other trainers published, with their settings and sources, to compare
-- them with the predictions of memory.lua. `moonring plan tables` prints the comparison.
local model_shape = require "moonring.plan.model_shape"

---@class moonring.published
---@field models table<string, moonring.ModelShape>
---@field tables moonring.PublishedTable[]
---@field away { title: string, source: string, rows: moonring.AwayRow[] }
local published = {}

---@class moonring.PublishedTable
---@field title string
---@field source string
---@field memory number bytes of a GPU
---@field strategy string
---@field sum_bytes? integer bytes per element of attention's sums
---@field reference? boolean whether a reference model is in memory
---@field rows moonring.PublishedRow[]

---@class moonring.AwayRow
---@field model string
---@field ranks integer all of them share one sequence
---@field memory number available bytes of a GPU
---@field theirs? number tokens, as published
---@field by? string the trainer

---@class moonring.PublishedRow
---@field model string
---@field ranks integer
---@field sp integer
---@field documents integer per example
---@field longest number tokens of each document
---@field logits "whole" | "chunked"
---@field mlp "whole" | "tiled"
---@field activation_offload? "cpu"
---@field offload_weights? "cpu"

-- Shapes from the models' config.json files (Qwen2.5 has biases on q, k, v).
published.models = {
  ["Qwen2.5-7B"] = model_shape.fill { layers = 28, hidden = 3584, width = 18944, heads = 28,
    kv_heads = 4, head_dim = 128, vocab = 152064, bias = true },
  ["Qwen2.5-14B"] = model_shape.fill { layers = 48, hidden = 5120, width = 13824, heads = 40,
    kv_heads = 8, head_dim = 128, vocab = 152064, bias = true },
  ["Qwen2.5-72B"] = model_shape.fill { layers = 80, hidden = 8192, width = 29568, heads = 64,
    kv_heads = 8, head_dim = 128, vocab = 152064, bias = true },
  ["Llama-3.1-8B"] = model_shape.fill { layers = 32, hidden = 4096, width = 14336, heads = 32,
    kv_heads = 8, head_dim = 128, vocab = 128256 },
  ["Qwen3-8B"] = model_shape.fill { layers = 36, hidden = 4096, width = 12288, heads = 32,
    kv_heads = 8, head_dim = 128, vocab = 151936 },
}

-- Makes a row for ZeRO-3 with the optimizer's states in the host's memory. `longest`: tokens of
-- each document; `documents` per example.
local function of_360(model, ranks, sp, documents, longest)
  return { model = model, ranks = ranks, sp = sp, documents = documents, longest = longest,
    logits = "whole", mlp = "whole", offload_weights = "cpu" }
end

local function alst(ranks, sp, longest, settings)
  local row = { model = "Llama-3.1-8B", ranks = ranks, sp = sp, documents = 1, longest = longest,
    logits = "whole", mlp = "whole" }
  for name, value in pairs(settings) do row[name] = value end
  if ranks == 1 then row.offload_weights = "cpu" end
  return row
end

local tiled_logits, tiled_mlp, offloaded = { logits = "chunked" },
  { logits = "chunked", mlp = "tiled" }, { logits = "chunked", activation_offload = "cpu" }
local everything = { logits = "chunked", mlp = "tiled", activation_offload = "cpu" }

-- `memory` is what an 80 GB GPU reports. Common settings of these trainers: ZeRO-3; the optimizer's
-- states, gradients and fp32 weights on the host; recompute of blocks, FlashAttention, bf16 hidden
-- states. ring-flash-attn sums attention's results over ranks in fp32 (sum_bytes: 4). With Ulysses
-- attention sums only within a kernel, whose results are bf16.
published.tables = {
  {
    title = "360-LLaMA-Factory, full SFT, A800 80 GB",
    source = "README.md of Qihoo360/360-LLaMA-Factory at 6fd8b28, \"SFT Max Length\" (also "
      .. "arXiv:2505.22296): zero3-offload and gradient checkpointing, nothing else; whole fp32 "
      .. "logits",
    memory = 79.3 * 2 ^ 30, strategy = "zigzag-ring",
    rows = { of_360("Qwen2.5-7B", 8, 8, 1, 210e3), of_360("Qwen2.5-14B", 8, 8, 1, 175e3),
      of_360("Qwen2.5-72B", 32, 8, 1, 128e3) },
  },
  {
    title = "360-LLaMA-Factory, full DPO, A800 80 GB",
    source = "the same, \"DPO Max Length\": tokens of each answer, chosen and rejected in one "
      .. "forward; the reference under zero3-offload too",
    memory = 79.3 * 2 ^ 30, strategy = "zigzag-ring", reference = true,
    rows = { of_360("Qwen2.5-7B", 8, 4, 2, 32e3), of_360("Qwen2.5-7B", 8, 8, 2, 84e3),
      of_360("Qwen2.5-14B", 8, 4, 2, 32e3), of_360("Qwen2.5-14B", 8, 8, 2, 72e3),
      of_360("Qwen2.5-72B", 32, 8, 2, 46e3), of_360("Qwen2.5-72B", 32, 16, 2, 86e3) },
  },
  {
    title = "ALST (Arctic Long Sequence Training), Llama-3.1-8B, H100 80 GB",
    source = "arXiv:2506.13996, abstract (500K on one GPU, 3.7M on 8, 15M on 32; over 32K none "
      .. "trains without it); 16 GPUs: max_length of projects/sequence-parallelism/" ..
      "run-h100-sp16-llama-8b.yml in snowflakedb/ArcticTraining at b28638e",
    memory = 79.3 * 2 ^ 30, strategy = "ulysses", sum_bytes = 2,
    rows = { alst(1, 1, 32e3, {}), alst(1, 1, 500e3, everything), alst(8, 8, 3.7e6, everything),
      alst(16, 16, 8e6, everything), alst(32, 32, 15e6, everything) },
  },
  {
    title = "ALST, its features one by one, Llama-3.1-8B, 8 x H100 80 GB",
    source = "max_length of projects/sequence-parallelism/run-h100-sp8-llama-8b*.yml in "
      .. "snowflakedb/ArcticTraining at b28638e, in this order: no-ulysses-no-liger-no-extras, " ..
      "no-ulysses-yes-liger-no-extras, no-mlp-no-act-offload, yes-mlp, yes-act-offload, and all "
        .. "(3.8M there, 3.7M in the paper)",
    memory = 79.3 * 2 ^ 30, strategy = "ulysses", sum_bytes = 2,
    rows = { alst(8, 1, 32e3, {}), alst(8, 1, 160e3, tiled_logits), alst(8, 8, 1.1e6, tiled_logits),
      alst(8, 8, 1.2e6, tiled_mlp), alst(8, 8, 2.4e6, offloaded), alst(8, 8, 3.7e6, everything) },
  },
}

-- 139 GiB is the memory of a 141 GB H200. TRL's GB are assumed to be 10^9 bytes.
published.away = {
  title = "Full parameters with everything on the host",
  source = "ALST as above; TRL: release notes of huggingface/trl v1.13.0, \"Training beyond 1M "
    .. "tokens\": Qwen3-8B, 1,048,576 tokens, 8 x H100, 56.2 GB a GPU",
  rows = {
    { model = "Llama-3.1-8B", ranks = 1, memory = 79.3 * 2 ^ 30, theirs = 500e3, by = "ALST" },
    { model = "Llama-3.1-8B", ranks = 1, memory = 139 * 2 ^ 30 },
    { model = "Qwen3-8B", ranks = 8, memory = 56.2e9, theirs = 1048576, by = "TRL" },
    { model = "Qwen3-8B", ranks = 8, memory = 79.3 * 2 ^ 30 },
  },
}

return published
