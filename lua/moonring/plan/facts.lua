--- Collects the inputs of memory.lua's prediction, from a configuration and a checkpoint (its
-- config.json is enough), or from published numbers.
local adapter_kinds = require "moonring.choices.adapter_kinds"
local attention = require "moonring.native.attention"
local errors = require "moonring.base.errors"
local learning = require "moonring.plan.learning"
local memory = require "moonring.plan.memory"
local model_flops = require "moonring.plan.model_flops"
local model_shape = require "moonring.plan.model_shape"
local packing = require "moonring.model.packing"
local compute = require "moonring.choices.compute"
local batching = require "moonring.choices.batching"
local optimizers = require "moonring.choices.optimizers"
local rounds = require "moonring.choices.rounds"
local stages = require "moonring.choices.stages"
local strategies = require "moonring.choices.strategies"

---@class moonring.memory_facts
local memory_facts = {}

--- The machines and data that a run is planned for.
---@class moonring.RunOn
---@field ranks integer
---@field device "cpu" | "cuda"
---@field machine? integer ranks per machine; default: all
---@field longest? integer tokens of the longest document; default: cutoff_len
--- `context_is_there`: whether the free memory was read when CUDA's context already existed.
---@field context_is_there? boolean

--- The inputs of a memory prediction.
---@class moonring.MemoryFacts
---@field model moonring.ModelShape
---@field learns { embedding: number, head: number, blocks: number } trainable parameters of each
---@field adapter number parameters of an adapter, in addition
---@field first? number numbers of PiSSA's initial A and B, which are not trained
---@field rotates? boolean the adapter is OFT's
---@field depth integer number of layers that run backward
---@field tokens number of tokens in a micro-batch, over the sp group
---@field alone number of tokens in one example, over the sp group
---@field step number of tokens in a step, on one sp group
---@field documents integer per example
---@field micro_batches integer per step
---@field sp integer
---@field ranks integer
---@field machine integer ranks per machine
---@field strategy string
---@field contexts integer
---@field head_ranks integer
---@field keys "ring" | "windows" | "gather"
---@field contiguous boolean
---@field zero_stage integer
---@field zero_ranks number ranks over which states are sharded
---@field expert_ranks? integer ranks that share the experts of each layer; default 1
--- `local_steps`: steps per round, if sp groups take independent steps (choices/rounds.lua).
---@field local_steps? integer
---@field outer_numbers? integer numbers that local_steps stores per trainable weight
---@field precision "fp32" | "bf16" | "fp16" | "pure_bf16" | "fp64"
---@field recompute "block" | "selective" | "none"
---@field whole_layers? integer number of first layers that keep everything, whatever `recompute` is
---@field selective_layers? integer number of layers after them that keep attention's result
---@field moments number numbers that the optimizer stores per weight
---@field moments_of? string the optimizer, if `moments` is a guess
---@field activation_offload? "cpu" | "disk" if it has an effect
---@field idle_offload? string a log line, if activation_offload is given without an effect
---@field offload_optimizer? "cpu" | "disk"
---@field offload_weights? "cpu" if matrices are fetched from a GPU's host for each use
---@field moment_bytes? number bytes of each of the optimizer's numbers; default: of a gradient
---@field cast_once? boolean whether 16-bit copies of trainable matrices are kept
---@field device "cpu" | "cuda"
---@field reference boolean whether a second model is in memory
---@field logits "chunked" | "none" | "whole"
--- `mapped`: bytes of memory-mapped weight files whose pages stay in memory until the kernel evicts
--- them; the prediction does not count them. 0: on a CPU the frozen weights are the file's pages.
---@field mapped? number
--- `sequences`: documents of a micro-batch, which a GPU's kernels process separately; default 1.
---@field sequences? integer
---@field deterministic? boolean whether a GPU's kernels are deterministic
---@field context_is_there? boolean whether the available memory already excludes CUDA's context
---@field learning_layers? integer layers with the parameters `learns.blocks`; default: all
---@field dora? number elements of the largest linear map that has DoRA
---@field tile_bytes? number of a tile of rows; 0: no tiles
---@field tile_rows? number the fewest rows of a tile; default: by device
---@field logit_rows? number the fewest rows of a chunk of logits; default: by device
---@field mixing? moonring.MixingMode how a gated delta rule is distributed; default "auto"
---@field division table options of attention.layout: the strategy, with its degrees
---@field shifted? boolean whether attention is shifted (shift_attn)
---@field shares? moonring.ModelFlops if an example's documents share prefixes (share_prefixes)
---@field idle_mixing? string a log line, if linear_attention_mode has no effect
---@field packed? moonring.PackedSizes of a frozen base with quantized matrices
---@field packed_code? string their quantization type
---@field packed_reference? moonring.PackedSizes of ref_model's weights
---@field stream_bytes? number bytes per number of the residual stream, if not fp32 (fp64)

--- Resolves how a strategy divides the ranks of an sp group. Errors: those of attention.resolve.
---@param options moonring.ResolveOptions
---@return { contexts: integer, head_ranks: integer, keys: string, contiguous: boolean }
function memory_facts.division(options)
  local strategy = attention.resolve(options)
  local windows = strategy.keys == "ring" and strategy.contexts > strategy.window
  return { contexts = strategy.contexts, head_ranks = strategy.head_ranks,
    keys = windows and "windows" or strategy.keys,
    contiguous = strategy.ownership == "contiguous" }
end

--- Documents per example, which go through one forward together: 2 in stages dpo, rm and kto.
---@param c moonring.Configuration
---@return integer
function memory_facts.documents(c)
  return stages.of(c).documents
end

-- Whether a second model is in memory next to the trained one.
local function holds_reference(c)
  if not stages.compares(c) or c.precompute_ref_log_probs then return false end
  return c.ref_model ~= nil or not adapter_kinds.has(c)
end

-- The number of ranks over which ZeRO shards.
local function zero_ranks(c, ranks, sp, machine)
  return ({ sp = sp, node = math.min(machine, ranks) })[c.zero_group or "world"] or ranks
end

-- Bytes of memory-mapped weight files that stay in memory next to weights that were converted to
-- another dtype. The kernel can evict these pages.
local function mapped(c, checkpoint, device)
  local stored, held = checkpoint:facts(), ({ fp32 = "F32", bf16 = "F32", fp16 = "F32",
    pure_bf16 = "BF16", fp64 = "F64" })[compute.precision(c)]
  return device == "cpu" and stored.dtypes[1] ~= held and stored.bytes or 0
end

-- Maps 0, which means the device's default, to nil.
local function given_or_nil(value) return value and value > 0 and value or nil end

local function placed(value) return value ~= "none" and value or nil end

--- The facts of a run.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@param given moonring.RunOn
---@return moonring.MemoryFacts
function memory_facts.run(c, checkpoint, given)
  local m = model_shape.of(checkpoint)
  local learns, adapted, depth, learning_layers, dora = learning.of(c, checkpoint, m)
  local first = c.pissa_init and learning.first(c, checkpoint) or nil
  local sp, documents = c.sequence_parallel_size, memory_facts.documents(c)
  local cutoff = batching.longest(c)
  local alone = documents * math.min(cutoff, given.longest or cutoff)
  local most = math.max(batching.micro_batch_tokens(c), alone) -- an example is never split
  local step = alone * c.per_device_train_batch_size * c.gradient_accumulation_steps
  local tokens = math.min(most, step)
  local function shapes() return learning.shapes(c, checkpoint) end
  local moments, assumed = optimizers.moments(c, checkpoint:facts(), shapes)
  local place, idle_offload = compute.activation_place(c, given.device)
  local f = { model = m, learns = learns, adapter = adapted, dora = dora, first = first,
    rotates = c.finetuning_type == "oft" or nil, depth = depth,
    learning_layers = learning_layers, tokens = tokens, sp = sp, ranks = given.ranks,
    machine = given.machine or given.ranks,
    documents = documents, micro_batches = math.ceil(step / most), alone = alone, step = step,
      strategy = c.sequence_parallel_mode, device = given.device, precision = compute.precision(c),
    recompute = compute.recompute(c), whole_layers = c.whole_layers,
      selective_layers = c.selective_layers, moments = moments, moments_of = assumed,
      zero_stage = c.zero_stage or 0, expert_ranks = c.expert_parallel_size,
      local_steps = rounds.wanted(c) and c.local_steps or nil, outer_numbers = rounds.numbers(c),
      moment_bytes = optimizers.moment_bytes(c, shapes),
    offload_weights = given.device == "cuda" and c.offload_weights or nil,
    shifted = c.shift_attn or nil,
    shares = c.share_prefixes and stages.of(c).shares and model_flops.of(c, checkpoint) or nil,
    cast_once = (c.cast_weights == "step" and compute.held(c) ~= nil) or nil,
    activation_offload = place ~= "memory" and c.activation_offload or nil,
    idle_offload = idle_offload, mixing = c.linear_attention_mode,
      idle_mixing = strategies.idle_mixing(c, checkpoint:facts()),
    offload_optimizer = placed(c.offload_optimizer), reference = holds_reference(c),
    logits = stages.of(c).head == "value" and "none" or "chunked", tile_bytes = c.tile_mib
      and c.tile_mib * 2 ^ 20, tile_rows = given_or_nil(c.tile_rows),
    logit_rows = given_or_nil(c.logit_rows), stream_bytes = c.residual_dtype == "bf16" and 2 or nil,
    mapped = mapped(c, checkpoint, given.device), context_is_there = given.context_is_there,
      deterministic = c.full_determinism or nil,
    sequences = documents * math.ceil(tokens / alone) }
  local code, reference = packing.of(c), packing.of_reference(c)
  if code then f.packed, f.packed_code = checkpoint:packed_sizes(code), code end
  if reference and f.reference then f.packed_reference = checkpoint:packed_sizes(reference) end
  f.zero_ranks = f.local_steps and sp or zero_ranks(c, given.ranks, sp, f.machine)
  f.options = { ulysses_degree = c.sequence_parallel_ulysses_degree,
    ring_degree = c.sequence_parallel_ring_degree, double_ring_window = c.double_ring_window,
    placement = c.placement }
  return memory_facts.spread(f, sp, c.sequence_parallel_mode, f.options)
end

--- The same facts, with sequences divided over `sp` ranks by `strategy`. Errors: INVALID_ARGUMENT
--- if that is not possible. `options` has degrees and windows, by the names of attention.resolve's
--- options; absent ones are chosen automatically.
---@param f moonring.MemoryFacts
---@param sp integer
---@param strategy string
---@param options? table
---@return moonring.MemoryFacts
function memory_facts.spread(f, sp, strategy, options)
  local asked = { ranks = sp, heads = f.model.heads, kv_heads = f.model.kv_heads,
    head_dim = f.model.head_dim, value_dim = f.model.value_dim }
  for name, value in pairs(options or {}) do asked[name] = value end
  local function with(name)
    asked.strategy = sp == 1 and "dense" or name
    local ok, division = pcall(memory_facts.division, asked)
    if not ok then errors.fail("sequence_parallel_mode: ", name, ": ", errors.words(division)) end
    local spread = setmetatable({ sp = sp, strategy = strategy }, { __index = f })
    for field, value in pairs(division) do spread[field] = value end
    spread.division = { strategy = asked.strategy }
    for field, value in pairs(options or {}) do spread.division[field] = value end
    return spread
  end
  if strategy ~= "auto" or sp == 1 then return with(strategy) end
  local most
  for _, name in ipairs { "ulysses", "zigzag-ring", "all-gather" } do
    local each = with(name)
    if not most or memory.predict(each).total > memory.predict(most).total then most = each end
  end
  return most
end

return memory_facts
