--- The facts that memory.lua foretells from, out of a configuration and a checkpoint (its config
-- alone will do), or out of published numbers.
local attention = require "moonring.native.attention"
local config = require "moonring.config"
local memory = require "moonring.plan.memory"
local compute = require "moonring.run.compute"
local counts = require "moonring.run.counts"
local stages = require "moonring.run.stages"

---@class moonring.memory_facts
local memory_facts = {}

---@class moonring.RunOn
---@field ranks integer
---@field device "cpu" | "cuda"
---@field machine? integer ranks that share one; all where absent
---@field longest? integer tokens of the longest document; cutoff_len where absent
---@field context_is_there? boolean whether free memory was read with CUDA's context in it

--- A model's sizes, and its parameters by part. The config alone will do.
---@param checkpoint moonring.Checkpoint
---@return moonring.ModelShape
function memory_facts.model(checkpoint)
  local facts = checkpoint:facts()
  local m = { layers = facts.layers, hidden = facts.hidden_size, heads = facts.heads,
    kv_heads = facts.kv_heads, head_dim = facts.head_dim, vocab = facts.vocab_size,
    tied = facts.tied, window = facts.window, softcap = facts.softcap,
      logit_softcap = facts.logit_softcap, windowed = facts.sliding_layers, embedding = 0, head = 0,
      blocks = 0 }
  -- Of a mixture of experts the features that a token meets.
  m.width = facts.experts > 0
    and facts.experts_chosen * facts.expert_intermediate_size + facts.shared_expert_size
    or facts.intermediate_size
  -- Each expert has as many rows as a dense MLP would.
  m.tile_factor = facts.experts > 0 and math.max(1,
    math.floor(facts.experts / facts.experts_chosen)) or 1
  if facts.experts > 0 then m.experts, m.chosen = facts.experts, facts.experts_chosen end
  for _, part in ipairs(checkpoint:parts()) do
    local own = (part.name == "embedding" or part.name == "head") and part.name or "blocks"
    m[own] = m[own] + part.parameters
  end
  return m
end

--- What a strategy makes of its ranks. Errors: as attention.resolve.
---@param options moonring.ResolveOptions
---@return { contexts: integer, head_ranks: integer, keys: string, contiguous: boolean }
function memory_facts.division(options)
  local said = attention.resolve(options)
  local sp, name = options.ranks, said:match "^[%w-]+"
  local contexts, heads = said:match "of (%d+) contexts x (%d+) heads"
  if contexts then
    return { contexts = tonumber(contexts), head_ranks = tonumber(heads), keys = "ring" }
  end
  if name == "ulysses" then return { contexts = 1, head_ranks = sp } end
  return { contexts = sp, head_ranks = 1, keys = ({ ["all-gather"] = "gather",
    ["double-ring"] = "windows" })[name] or "ring", contiguous = name == "ring" }
end

local function named(list, name)
  for _, each in ipairs(type(list) == "table" and list or { list }) do
    if each == name then return true end
  end
  return false
end

-- Parameters of an adapter: A and B of each map that it is put on, DoRA's magnitudes, and modules
-- that learn whole. Then the largest of DoRA's maps.
local function adapter(c, checkpoint, m)
  local sum, largest = 0, 0
  for _, map in ipairs(checkpoint:linear_maps()) do
    if named(c.lora_target, "all") or named(c.lora_target, map.module:match "[^.]*$") then
      sum = sum + c.lora_rank * (map.rows + map.columns) + (c.use_dora and map.rows or 0)
      largest = math.max(largest, map.rows * map.columns)
    end
  end
  local whole = c.additional_target or (c.resize_vocab and checkpoint:vocabulary_modules()) or {}
  for _, name in ipairs(checkpoint:vocabulary_modules()) do
    if named(whole, name) then sum = sum + m.vocab * m.hidden end
  end
  return sum, c.use_dora and largest or nil
end

-- With finetuning_type freeze: the part of a layer that learns.
local function thawed(c, checkpoint)
  if named(c.freeze_trainable_modules, "all") then return 1 end
  local learns, all = 0, 0
  for _, map in ipairs(checkpoint:linear_maps()) do
    local size, learning = map.rows * map.columns, false
    for _, name in ipairs(c.freeze_trainable_modules) do
      learning = learning or ("." .. map.module .. "."):find("." .. name .. ".", 1, true) ~= nil
    end
    learns, all = learns + (learning and size or 0), all + size
  end
  return learns / all
end

-- What learns; parameters of an adapter; how many layers a backward goes down, and how many learn.
-- Then the largest of DoRA's maps.
local function learning(c, checkpoint, m)
  local head = stages.of(c).head == "logits" and m.head or 0 -- a reward model's head meets no token
  if c.finetuning_type == "lora" then
    local parameters, largest = adapter(c, checkpoint, m)
    return { embedding = 0, head = 0, blocks = 0 }, parameters, m.layers, m.layers, largest
  end
  if c.finetuning_type ~= "freeze" then
    return { embedding = m.embedding, head = head, blocks = m.blocks }, 0, m.layers, m.layers
  end
  local n, extra = c.freeze_trainable_layers, c.freeze_extra_modules or {}
  local layers = math.min(math.abs(n), m.layers)
  local modules = checkpoint:vocabulary_modules()
  local embeds = named(extra, modules[1]) or (m.tied and named(extra, modules[2]))
  return { embedding = embeds and m.embedding or 0, head = named(extra, modules[2]) and head or 0,
    blocks = m.blocks * layers / m.layers * thawed(c, checkpoint) }, 0,
    (n > 0 and not embeds) and layers or m.layers, layers
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
  return c.ref_model ~= nil or c.finetuning_type ~= "lora"
end

-- Ranks over which ZeRO shards.
local function zero_ranks(c, ranks, sp, machine)
  return ({ sp = sp, node = math.min(machine, ranks) })[c.zero_group or "world"] or ranks
end

-- Bytes of mapped files whose pages stay resident beside weights that were made of them in another
-- dtype. The kernel lets them go when it wants room.
local function mapped(c, checkpoint, device)
  local stored, held = checkpoint:facts(), ({ fp32 = "F32", bf16 = "F32", pure_bf16 = "BF16",
    fp64 = "F64" })[compute.precision(c)]
  return device == "cpu" and stored.dtypes[1] ~= held and stored.bytes or 0
end

local function placed(value) return value ~= "none" and value or nil end

--- The facts of a run.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@param given moonring.RunOn
---@return moonring.MemoryFacts
function memory_facts.run(c, checkpoint, given)
  local m = memory_facts.model(checkpoint)
  local learns, adapted, depth, learning_layers, dora = learning(c, checkpoint, m)
  local sp, documents = c.sequence_parallel_size, memory_facts.documents(c)
  local alone = documents * math.min(c.cutoff_len, given.longest or c.cutoff_len)
  local most = math.max(counts.micro_batch_tokens(c), alone) -- a longer example goes alone
  local step = alone * c.per_device_train_batch_size * c.gradient_accumulation_steps
  local tokens = math.min(most, step)
  local place, idle_offload = compute.activation_place(c, given.device)
  local f = { model = m, learns = learns, adapter = adapted, dora = dora, depth = depth,
    learning_layers = learning_layers, tokens = tokens, sp = sp, ranks = given.ranks,
    machine = given.machine or given.ranks,
    documents = documents, micro_batches = math.ceil(step / most), alone = alone, step = step,
      strategy = c.sequence_parallel_mode, device = given.device, precision = compute.precision(c),
    recompute = compute.recompute(c), whole_layers = c.whole_layers,
      selective_layers = c.selective_layers, optimizer = c.optim == "sgd" and "sgd" or "adamw",
      zero_stage = c.zero_stage or 0,
    activation_offload = place ~= "memory" and c.activation_offload or nil,
    idle_offload = idle_offload,
    offload_optimizer = placed(c.offload_optimizer), reference = holds_reference(c),
    logits = stages.of(c).head == "value" and "none" or "chunked", tile_bytes = c.tile_mib
      and c.tile_mib * 2 ^ 20,
    mapped = mapped(c, checkpoint, given.device), context_is_there = given.context_is_there,
      deterministic = c.full_determinism or nil,
    sequences = documents * math.ceil(tokens / alone) }
  f.zero_ranks = zero_ranks(c, given.ranks, sp, f.machine)
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
    head_dim = f.model.head_dim }
  for name, value in pairs(options or {}) do asked[name] = value end
  local function with(name)
    asked.strategy = sp == 1 and "dense" or name
    local ok, division = pcall(memory_facts.division, asked)
    if not ok then
      config.fail("sequence_parallel_mode: ", name, ": ",
        (tostring(division):gsub("^.*INVALID_ARGUMENT: ", "")))
    end
    local spread = setmetatable({ sp = sp, strategy = strategy }, { __index = f })
    for field, value in pairs(division) do spread[field] = value end
    spread.contiguous, spread.keys = division.contiguous or false, division.keys or "ring"
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
