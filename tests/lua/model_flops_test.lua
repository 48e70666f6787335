-- Operations of a training step: model_flops_test.lua FOLDER, which must be empty. Raises one error
-- that lists all failures. Expected numbers are computed from published sizes.
local folder = arg[1]
local moonring = require "moonring"
local model_flops = require "moonring.plan.model_flops"
local system = moonring.system

local failures = {}
local function same(what, got, wanted)
  if got ~= wanted then
    failures[#failures + 1] = ("%s: expected %s, got %s"):format(what, tostring(wanted),
      tostring(got))
  end
end

local function checkpoint(name, config)
  local path = folder .. "/" .. name .. ".json"
  system.write(path, system.json_encode(config))
  return moonring.model.open_config(path)
end

local function llama(name, changes)
  local config = { architectures = { "LlamaForCausalLM" }, model_type = "llama",
    hidden_size = 4096, intermediate_size = 14336, num_hidden_layers = 32,
    num_attention_heads = 32, num_key_value_heads = 8, head_dim = 128, vocab_size = 128256,
    max_position_embeddings = 8192, rope_theta = 5e5, rms_norm_eps = 1e-5,
    tie_word_embeddings = false, hidden_act = "silu" }
  for key, value in pairs(changes) do config[key] = value end
  return checkpoint(name, config)
end

local function of(found, ...)
  return model_flops.of(moonring.config.load(nil, { ... }), found)
end

-- Llama-8B has 8,030,261,248 parameters, 525,336,576 of them in the embedding. HEAD and N: the
-- parameters of the head, and of all but the embedding.
local HEAD = 128256 * 4096
local N = 8030261248 - HEAD
local ATTENTION = 4096 * 4096 * 2 + 4096 * 1024 * 2
local BLOCK = ATTENTION + 3 * 4096 * 14336 + 2 * 4096
local whole, full = llama("llama", {}), "finetuning_type=full"

same("Llama-8B, a token", of(whole, full).token, 6 * N)
same("Llama-8B, a pair", of(whole, full).pair, 12 * 32 * 32 * 128)
same("shift_attn sees a quarter of them", of(whole, full, "shift_attn=true").pair,
  3 * 32 * 32 * 128)
same("a tied head is a product all the same",
  of(llama("tied", { tie_word_embeddings = true }), full).token, 6 * N)
same("a reward model has no head", of(whole, full, "stage=rm", "dataset=x").token, 6 * (N - HEAD))

-- Equals torchtitan's formula for 8k tokens: 6 N + 12 L h d T per token.
local operations, causal = model_flops.total(of(whole, full), 8192, 8192 ^ 2)
same("a step of 8k", operations, 8192 * (6 * N + 12 * 32 * 32 * 128 * 8192))
same("its attention halved", causal, 8192 * (6 * N + 6 * 32 * 32 * 128 * 8192))
local packed = model_flops.total(of(whole, full), 8192, 8 * 1024 ^ 2)
same("eight documents", packed, 8192 * (6 * N + 12 * 32 * 32 * 128 * 1024))

-- LoRA: no gradient is computed for frozen weights, and none at all below the lowest trainable
-- weight.
local lora = of(whole, "finetuning_type=lora", "lora_rank=8", "lora_target=q_proj,v_proj")
same("LoRA", lora.token, 4 * N + 6 * 32 * 8 * (4096 + 4096 + 4096 + 1024))
same("LoRA's pairs", lora.pair, 12 * 32 * 32 * 128)
local freeze = of(whole, "finetuning_type=freeze", "freeze_trainable_layers=2")
local blocks = N - HEAD -- includes the last norm; a layer gets 1/32 of it
same("freeze", freeze.token, 2 * N + 2 * (blocks * 2 / 32 + HEAD) + 2 * blocks * 2 / 32)
same("freeze's pairs", freeze.pair, (4 * 32 + 8 * 2) * 32 * 128)
same("blocks", blocks, 32 * BLOCK + 4096)

-- Mixtral 8x7B: two of eight experts are used per token.
local mixture = llama("mixture", { architectures = { "MixtralForCausalLM" },
  model_type = "mixtral", vocab_size = 32000, num_local_experts = 8, num_experts_per_tok = 2,
  sliding_window = system.null })
same("Mixtral", of(mixture, full).token, 6 * (32000 * 4096 + 4096
  + 32 * (ATTENTION + 8 * 4096 + 2 * 3 * 4096 * 14336 + 2 * 4096)))

-- Qwen3.5-9B: only the 8 of 32 layers with softmax attention have pairs of queries and keys.
local hybrid = checkpoint("hybrid", { architectures = { "Qwen3_5ForCausalLM" },
  model_type = "qwen3_5_text", hidden_size = 4096, intermediate_size = 12288,
  num_hidden_layers = 32, num_attention_heads = 16, num_key_value_heads = 4, head_dim = 256,
  vocab_size = 248320 })
local softmax = 3 * 4096 * 4096 + 2 * 1024 * 4096 + 2 * 256
local linear = 8192 * 4096 + 2 * 4096 * 4096 + 2 * 32 * 4096 + 8192 * 4 + 2 * 32 + 128
same("Qwen3.5, a token", of(hybrid, full).token, 6 * (248320 * 4096 + 4096 + 8 * softmax
  + 24 * linear + 32 * (3 * 4096 * 12288 + 2 * 4096)))
same("Qwen3.5, a pair", of(hybrid, full).pair, 12 * 8 * 16 * 256)

for name, rate in pairs { ["NVIDIA H100 80GB HBM3"] = 989e12, ["NVIDIA H100 PCIe"] = 756e12,
  ["NVIDIA H200"] = 989e12, ["NVIDIA A100-SXM4-80GB"] = 312e12, ["NVIDIA A10"] = 125e12,
  ["NVIDIA L40S"] = 362e12, ["NVIDIA L4"] = 121e12, ["NVIDIA GeForce RTX 4090"] = 165.2e12 } do
  same(name, model_flops.peak(name), rate)
end
for _, name in ipairs { "Tesla V100-SXM2-32GB", "NVIDIA GeForce RTX 4090 Laptop GPU",
  "NVIDIA GeForce RTX 4090 D", "NVIDIA A100X", "a GPU" } do
  same(name, model_flops.peak(name), nil)
end
same("no name", model_flops.peak(nil), nil)

if #failures > 0 then
  error(#failures .. " differences:\n" .. table.concat(failures, "\n"), 0)
end
