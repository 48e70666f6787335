--- Chooses the layers that keep activations instead of recomputing them (MEMO, arXiv:2407.12117,
-- makes a similar choice for the tokens of each layer). Keeping attention's result saves
-- attention's forward: at least T flops per kept number. Keeping the whole graph saves the rest of
-- the block's forward: some hundred flops per number. So attention's result is kept in as many
-- layers as fit. Only if all layers keep it, some of them keep everything.
local memory = require "moonring.plan.memory"

---@class moonring.recompute
local recompute = {}

-- The greatest n from 0 to `most` for which fits(n) is true. fits(0) is assumed to be true.
local function greatest(most, fits)
  local low, high = 0, most + 1
  while high - low > 1 do
    local middle = math.floor((low + high) / 2)
    if fits(middle) then low = middle else high = middle end
  end
  return low
end

--- The number of layers that can keep everything, and the number of other layers that can keep
--- attention's result.
---@param f moonring.MemoryFacts
---@param bytes number available to a rank
---@return integer whole
---@return integer selective
function recompute.layers(f, bytes)
  local function fits(whole, selective)
    return memory.predict(setmetatable({ whole_layers = whole, selective_layers = selective },
      { __index = f })).total <= bytes
  end
  local selective = greatest(f.depth, function(n) return fits(0, n) end)
  if selective < f.depth then return 0, selective end
  local whole = greatest(f.depth, function(n) return fits(n, f.depth - n) end)
  return whole, f.depth - whole
end

--- Sets whole_layers and selective_layers of a configuration with `recompute: auto`. Returns a line
--- for the log, or nil with another value of recompute.
---@param c moonring.Configuration
---@param f moonring.MemoryFacts
---@param bytes number available to a rank
---@return string?
function recompute.settle(c, f, bytes)
  if c.recompute ~= "auto" or c.disable_gradient_checkpointing then return nil end
  c.whole_layers, c.selective_layers = recompute.layers(f, bytes * (1 - memory.error))
  return ("recompute: auto: of %d layers %d keep everything, %d attention's result; the others "
    .. "are recomputed"):format(f.depth, c.whole_layers, c.selective_layers)
end

return recompute
