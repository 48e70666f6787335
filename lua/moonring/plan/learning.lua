--- Counts trainable parameters, according to finetuning_type and its keys, from the shapes of a
-- model's linear maps.
local adapter_kinds = require "moonring.choices.adapter_kinds"
local model = require "moonring.native.model"
local stages = require "moonring.choices.stages"

---@class moonring.learning
local learning = {}

local function named(list, name)
  for _, each in ipairs(type(list) == "table" and list or { list }) do
    if each == name then return true end
  end
  return false
end

-- The linear maps that have an adapter, with the shapes of their adapter weights: A, B and DoRA's
-- magnitude; for OFT the numbers above the diagonals of its blocks.
local function adapted_maps(c, checkpoint)
  local maps, target = {}, adapter_kinds.target(c)
  for _, map in ipairs(checkpoint:linear_maps()) do
    if named(target, "all") or named(target, map.module:match "[^.]*$") then
      if c.finetuning_type == "oft" then
        local size = model.rotated_block(map.columns, c.oft_rank, c.oft_block_size)
        map.weights = { { "oft_R.weight", map.columns / size, size * (size - 1) / 2 } }
      else
        map.weights = { { "lora_A.weight", c.lora_rank, map.columns },
          { "lora_B.weight", map.rows, c.lora_rank } }
        if c.use_dora then map.weights[3] = { "lora_magnitude_vector.weight", map.rows } end
      end
      maps[#maps + 1] = map
    end
  end
  return maps
end

-- Counts the parameters of an adapter: its weights in all maps, and fully trained modules. Also
-- returns the number of elements of the largest map that has DoRA.
local function adapter(c, checkpoint, m)
  local sum, largest = 0, 0
  for _, map in ipairs(adapted_maps(c, checkpoint)) do
    for _, weight in ipairs(map.weights) do sum = sum + weight[2] * (weight[3] or 1) end
    largest = math.max(largest, map.rows * map.columns)
  end
  local whole = c.additional_target or (c.resize_vocab and checkpoint:vocabulary_modules()) or {}
  for _, name in ipairs(checkpoint:vocabulary_modules()) do
    if named(whole, name) then sum = sum + m.vocab * m.hidden end
  end
  return sum, c.finetuning_type == "lora" and c.use_dora and largest or nil
end

--- The shapes of the trainable weights, from which the optimizer's memory is computed. With
--- finetuning_type: freeze they are the shapes of all weights, as an approximation.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@return moonring.WeightShape[]
function learning.shapes(c, checkpoint)
  if not adapter_kinds.has(c) then return checkpoint:weight_shapes() end
  local shapes = {}
  for _, map in ipairs(adapted_maps(c, checkpoint)) do
    for _, weight in ipairs(map.weights) do
      shapes[#shapes + 1] = { name = map.module .. "." .. weight[1],
        shape = { weight[2], weight[3] } }
    end
  end
  return shapes
end

--- The number of elements of PiSSA's initial A and B, which are kept in addition to the adapter.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@return number
function learning.first(c, checkpoint)
  local sum = 0
  for _, map in ipairs(adapted_maps(c, checkpoint)) do
    sum = sum + c.lora_rank * (map.rows + map.columns)
  end
  return sum
end

-- The fraction of a layer's parameters that is trainable with finetuning_type: freeze.
local function thawed(c, checkpoint)
  if named(c.freeze_trainable_modules, "all") then return 1 end
  local learns, all = 0, 0
  for _, map in ipairs(checkpoint:linear_maps()) do
    local size, is_named = map.rows * map.columns, false
    for _, name in ipairs(c.freeze_trainable_modules) do
      is_named = is_named or ("." .. map.module .. "."):find("." .. name .. ".", 1, true) ~= nil
    end
    learns, all = learns + (is_named and size or 0), all + size
  end
  return learns / all
end

--- Counts trainable parameters. Returns those of the model, those of an adapter, the number of
--- layers that run backward, the number of layers with trainable parameters, and the number of
--- elements of the largest map that has DoRA.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@param m moonring.ModelShape with its parameters
---@return { embedding: number, head: number, blocks: number } learns
---@return number adapter
---@return integer depth
---@return integer layers
---@return number? dora
function learning.of(c, checkpoint, m)
  local head = stages.of(c).head == "logits" and m.head or 0 -- a reward model does not use it
  if adapter_kinds.has(c) then
    local parameters, largest = adapter(c, checkpoint, m)
    return { embedding = 0, head = 0, blocks = 0 }, parameters, m.layers, m.layers, largest
  end
  if c.use_badam and c.badam_mode == "layer" then -- one block at a time
    return { embedding = 0, head = 0, blocks = m.blocks / m.layers }, 0, m.layers, 1
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

return learning
