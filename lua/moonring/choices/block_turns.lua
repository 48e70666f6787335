--- BAdam's layer mode (use_badam; Luo, Yu, Li 2024, arXiv 2404.02827): blocks are trained in turns,
-- one block at a time. In each turn a new optimizer of the kind `optim` starts with an empty state.
-- Weights outside of blocks (embedding, final norm, head) stay frozen. Only the current block has
-- gradients and an optimizer state.
--
-- Turns are counted as in the package badam 1.4: turn 0 is one step shorter than
-- badam_switch_interval.
local comm = require "moonring.native.comm"
local errors = require "moonring.base.errors"
local tensor = require "moonring.native.tensor"

---@class moonring.block_turns
local block_turns = {}

---@class moonring.BlockTurns
---@field blocks { name: string, shards: moonring.Parameter[], weights: moonring.Parameter[] }[]
---@field order fun(turn: integer): integer the block of a turn, both from 0
---@field interval integer
---@field make fun(parameters: moonring.Parameters): moonring.Optimizer
---@field turn? integer from 0
---@field block? integer the current block, from 1
local BlockTurns = {}
BlockTurns.__index = BlockTurns

-- Returns the order of blocks: for every n turns a new random permutation of the n blocks.
local function random_order(n, seed)
  local round, order = -1, nil
  return function(turn)
    if math.floor(turn / n) ~= round then
      round = math.floor(turn / n)
      local drawn = tensor.uniform({ n }, { seed = seed, name = "badam", step = round }):tolist()
      order = {}
      for i = 1, n do order[i] = i - 1 end
      table.sort(order, function(a, b)
        if drawn[a + 1] ~= drawn[b + 1] then return drawn[a + 1] < drawn[b + 1] end
        return a < b
      end)
    end
    return order[turn % n + 1]
  end
end

local function order_of(c, n)
  local mode, first = c.badam_switch_mode, c.badam_start_block
  if first and first >= n then
    errors.fail("badam_start_block: expected less than the model's ", n, " blocks, got ", first)
  end
  if mode == "random" then return random_order(n, c.seed) end
  if mode == "fixed" then return function() return first end end
  if mode == "descending" then
    return function(turn) return ((first or n - 1) - turn) % n end
  end
  return function(turn) return ((first or 0) + turn) % n end
end

-- Groups the trainable weights by block, in the model's order.
local function blocks_of(shards, weights)
  local blocks, by_name, by_weight = {}, {}, {}
  for _, weight in ipairs(weights) do by_weight[weight:name()] = weight end
  for _, shard in ipairs(shards) do
    local name = shard:name():match "^.-layers%.%d+%."
    if name and not by_name[name] then
      by_name[name] = { name = name, shards = {}, weights = {} }
      blocks[#blocks + 1] = by_name[name]
    end
    if name then
      table.insert(by_name[name].shards, shard)
      table.insert(by_name[name].weights, by_weight[shard:name()])
    end
  end
  return blocks
end

--- Creates the object that decides which block is trained. Freezes all weights; `begin` then
--- unfreezes one block.
---@param c moonring.Configuration
---@param weights moonring.Parameters
---@param shards moonring.Parameters the states' parameters: shards of the trainable weights
---@param make fun(parameters: moonring.Parameters): moonring.Optimizer over some of the shards
---@return moonring.BlockTurns
function block_turns.new(c, weights, shards, make)
  local blocks = blocks_of(shards:list(), weights:list())
  if #blocks == 0 then errors.fail("use_badam: no block of the model is trainable") end
  for _, weight in ipairs(weights:list()) do weight:set_trainable(false) end
  return setmetatable({ blocks = blocks, order = order_of(c, #blocks), make = make,
    interval = c.badam_switch_interval }, BlockTurns)
end

--- Refuses invalid combinations of keys, before a model is loaded.
---@param c moonring.Configuration
function block_turns.check(c)
  if c.badam_switch_mode == "fixed" and not c.badam_start_block then
    errors.fail("badam_switch_mode: fixed: expected badam_start_block beside it")
  end
  if c.badam_switch_mode == "random" and c.badam_start_block then
    errors.fail("badam_start_block: badam_switch_mode: random draws every block")
  end
end

--- Starts a turn if step k, counted from 1, is the first of one: returns a new optimizer for the
--- turn's block. Returns nil at other steps.
---@param k integer
---@return moonring.Optimizer?
function BlockTurns:begin(k)
  local turn = math.floor(k / self.interval) - math.floor(1 / self.interval)
  if turn == self.turn then return nil end
  self.turn = turn
  local block = self.order(turn) + 1
  for _, weight in ipairs(self.block and self.blocks[self.block].weights or {}) do
    weight:set_trainable(false)
  end
  self.block = block
  for _, weight in ipairs(self.blocks[block].weights) do weight:set_trainable(true) end
  return self.make(comm.parameters(self.blocks[block].shards))
end

--- Name of the current block: "model.layers.3".
---@return string
function BlockTurns:name() return (self.blocks[self.block].name:gsub("%.$", "")) end

return block_turns
