--- The facts that memory.lua foretells from, out of a configuration and a checkpoint (its config
-- alone will do), or out of published numbers.
local adapter_kinds = require "moonring.choices.adapter_kinds"
local attention = require "moonring.native.attention"
local errors = require "moonring.base.errors"
local learning = require "moonring.plan.learning"
local memory = require "moonring.plan.memory"
local model_flops = require "moonring.plan.model_flops"
local model_shape = require "moonring.plan.model_shape"
local packing = require "moonring.model.packing"
local compute = require "moonring.choices.compute"
local counts = require "moonring.choices.counts"
local optimizers = require "moonring.choices.optimizers"
local rounds = require "moonring.choices.rounds"
local stages = require "moonring.choices.stages"
local strategies = require "moonring.choices.strategies"

---@class moonring.memory_facts
local memory_facts = {}

---@class moonring.RunOn
---@field ranks integer
---@field device "cpu" | "cuda"
---@field machine? integer ranks that share one; all where absent
---@field longest? integer tokens of the longest document; cutoff_len where absent
---@field context_is_there? boolean whether free memory was read with CUDA's context in it

---@class moonring.MemoryFacts
---@field model moonring.ModelShape
---@field learns { embedding: number, head: number, blocks: number } parameters of each that learn
---@field adapter number parameters of an adapter beside them
---@field first? number numbers of PiSSA's first A and B, which do not learn
---@field rotates? boolean the adapter is OFT's
---@field depth integer layers that a backward goes down
---@field tokens number of a micro-batch, over the sp group
---@field alone number of an example, over the sp group
---@field step number of a step, on one sp group
---@field documents integer of an example
---@field micro_batches integer in a step
---@field sp integer
---@field ranks integer
---@field machine integer ranks that share one
---@field strategy string
---@field contexts integer
---@field head_ranks integer
---@field keys "ring" | "windows" | "gather"
---@field contiguous boolean
---@field zero_stage integer
---@field zero_ranks number over which states are sharded
---@field expert_ranks? integer that share the experts of each layer; 1 where absent
---@field local_steps? integer of a round, where sp groups make steps of their own
---   (choices/rounds.lua)
---@field outer_numbers? integer that rounds keep beside each weight that learns
---@field precision "fp32" | "bf16" | "fp16" | "pure_bf16" | "fp64"
---@field recompute "block" | "selective" | "none"
---@field whole_layers? integer the first layers, that keep everything whatever `recompute` says
---@field selective_layers? integer the layers after them, that keep attention's result
---@field moments number that the optimizer keeps beside each weight
---@field moments_of? string whose they are, where they are a guess
---@field activation_offload? "cpu" | "disk" where it moves anything
---@field idle_offload? string a line that says so where it is asked for and does not
---@field offload_optimizer? "cpu" | "disk"
---@field offload_weights? "cpu" where matrices come from a GPU's host for each lease
---@field moment_bytes? number of each of the optimizer's numbers; those of a gradient where absent
---@field cast_once? boolean whether copies of matrices that learn are kept in 16 bits
---@field device "cpu" | "cuda"
---@field reference boolean whether a second model is held
---@field logits "chunked" | "none" | "whole"
--- bytes of files whose pages stay resident while nobody wants the room, counted nowhere; 0: on a
--- CPU weights that nobody changes are their file's pages
---@field mapped? number
--- documents of a micro-batch, which a GPU's kernels take apart; 1 where absent
---@field sequences? integer
---@field deterministic? boolean whether a GPU's kernels give the same bits each time
---@field context_is_there? boolean whether CUDA's context is taken from the memory there is already
---@field learning_layers? integer of which `learns.blocks` are parameters; all where absent
---@field dora? number elements of the largest map that DoRA is put on
---@field tile_bytes? number of a tile of rows in work; 0: no tiles
---@field tile_rows? number the fewest rows of it; by device where absent
---@field logit_rows? number the fewest rows of logits at a time; by device where absent
---@field mixing? moonring.MixingMode how a gated delta rule is spread; "auto" where absent
---@field division table options of attention.layout: the strategy, with its degrees
---@field shifted? boolean whether attention is shifted (shift_attn)
---@field shares? moonring.ModelFlops where an example's documents share prefixes (share_prefixes)
---@field idle_mixing? string a line that says so where linear_attention_mode is given for nothing
---@field packed? moonring.PackedSizes of a frozen base whose matrices lie packed
---@field packed_code? string their code
---@field packed_reference? moonring.PackedSizes of ref_model's, as if it were the model
---@field stream_bytes? number of a number of the residual stream, where it is not fp32 (fp64)

--- What a strategy makes of its ranks. Errors: as attention.resolve.
---@param options moonring.ResolveOptions
---@return { contexts: integer, head_ranks: integer, keys: string, contiguous: boolean }
function memory_facts.division(options)
  local strategy = attention.resolve(options)
  local windows = strategy.keys == "ring" and strategy.contexts > strategy.window
  return { contexts = strategy.contexts, head_ranks = strategy.head_ranks,
    keys = windows and "windows" or strategy.keys,
    contiguous = strategy.ownership == "contiguous" }
end

--- Documents of an example, which go through one forward together: 2 in stages dpo, rm and kto.
---@param c moonring.Configuration
---@return integer
function memory_facts.documents(c)
  return stages.of(c).documents
end

-- Whether a second model is held beside the one that learns.
local function holds_reference(c)
  if not stages.of(c).compares(c) or c.precompute_ref_log_probs then return false end
  return c.ref_model ~= nil or not adapter_kinds.has(c)
end

-- Ranks over which ZeRO shards.
local function zero_ranks(c, ranks, sp, machine)
  return ({ sp = sp, node = math.min(machine, ranks) })[c.zero_group or "world"] or ranks
end

-- Bytes of mapped files whose pages stay resident beside weights that were made of them in another
-- dtype. The kernel lets them go when it wants room.
local function mapped(c, checkpoint, device)
  local stored, held = checkpoint:facts(), ({ fp32 = "F32", bf16 = "F32", fp16 = "F32",
    pure_bf16 = "BF16", fp64 = "F64" })[compute.precision(c)]
  return device == "cpu" and stored.dtypes[1] ~= held and stored.bytes or 0
end

-- Of a key whose 0 stands for the device's own.
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
  local cutoff = counts.longest(c)
  local alone = documents * math.min(cutoff, given.longest or cutoff)
  local most = math.max(counts.micro_batch_tokens(c), alone) -- a longer example goes alone
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

--- The same facts over `sp` ranks by `strategy`. Errors: INVALID_ARGUMENT where it cannot be.
---@param f moonring.MemoryFacts
---@param sp integer
---@param strategy string
---@param options? table degrees and windows, by the names of attention.resolve's options; chosen
---   where absent
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
