--- How many parameters learn, by finetuning_type and its keys, counted from the shapes of a model's
-- linear maps.
local stages = require "moonring.run.stages"

---@class moonring.learning
local learning = {}

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

--- The weights that learn, for what an optimizer keeps beside them; with finetuning_type freeze
--- all, of which some do: they stand for their like.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@return moonring.WeightShape[]
function learning.shapes(c, checkpoint)
  if c.finetuning_type ~= "lora" then return checkpoint:weight_shapes() end
  local shapes = {}
  local function add(name, ...) shapes[#shapes + 1] = { name = name, shape = { ... } } end
  for _, map in ipairs(checkpoint:linear_maps()) do
    if named(c.lora_target, "all") or named(c.lora_target, map.module:match "[^.]*$") then
      add(map.module .. ".lora_A.weight", c.lora_rank, map.columns)
      add(map.module .. ".lora_B.weight", map.rows, c.lora_rank)
      if c.use_dora then add(map.module .. ".lora_magnitude_vector.weight", map.rows) end
    end
  end
  return shapes
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

--- What learns; parameters of an adapter; how many layers a backward goes down, and how many learn.
--- Then the largest of DoRA's maps.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
---@param m moonring.ModelShape with its parameters
---@return { embedding: number, head: number, blocks: number } learns
---@return number adapter
---@return integer depth
---@return integer layers
---@return number? dora
function learning.of(c, checkpoint, m)
  local head = stages.of(c).head == "logits" and m.head or 0 -- a reward model's head meets no token
  if c.finetuning_type == "lora" then
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
