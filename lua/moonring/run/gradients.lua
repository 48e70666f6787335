--- The gradient of a loss with respect to all trained parameters, as a vector. It is summed over
-- ranks. A rank has its shards of it; at zero_stage 0 that is the whole gradient.
--
--     g = a - b * (a:dot(b) / b:dot(b))
local errors = require "moonring.base.errors"

---@class moonring.gradients
local gradients = {}

--- A gradient. `+`, `-` and `* number` make a new one. A parameter without a gradient counts as 0.
---@class moonring.Gradients
---@field states moonring.States
--- `shards` by parameter: this rank's shards, one-dimensional, fp32 or fp64.
---@field shards table<string, moonring.Tensor>
---@operator add(moonring.Gradients): moonring.Gradients
---@operator sub(moonring.Gradients): moonring.Gradients
---@operator mul(number): moonring.Gradients
local Gradients = {}
Gradients.__index = Gradients

local function new(states, shards)
  return setmetatable({ states = states, shards = shards }, Gradients)
end

local function is_gradients(value) return getmetatable(value) == Gradients end

local function check(value)
  if not is_gradients(value) then
    errors.fail("gradients: expected a moonring.Gradients, got a ",
      type(value) == "userdata" and "tensor" or type(value))
  end
  return value
end

-- a + factor x b
local function added(a, b, factor)
  check(a)
  check(b)
  local sum = {}
  for name, shard in pairs(a.shards) do
    local other = b.shards[name]
    sum[name] = other and shard:add(other, { alpha = factor }) or shard
  end
  for name, shard in pairs(b.shards) do
    if not a.shards[name] then sum[name] = shard * factor end
  end
  return new(a.states, sum)
end

function Gradients.__add(a, b) return added(a, b, 1) end

function Gradients.__sub(a, b) return added(a, b, -1) end

function Gradients.__mul(a, b)
  if is_gradients(b) then a, b = b, a end
  if type(b) ~= "number" then
    errors.fail("gradients: expected a number as factor, got a ",
      is_gradients(b) and "gradient: a:dot(b) is their product" or type(b))
  end
  local scaled = {}
  for name, shard in pairs(a.shards) do scaled[name] = shard * b end
  return new(a.states, scaled)
end

function Gradients:__tostring()
  local n = 0
  for _ in pairs(self.shards) do n = n + 1 end
  return ("Gradients of %d parameters"):format(n)
end

--- The scalar product of two gradients over all parameters and ranks, in fp64. Collective over all
--- ranks.
---@param other moonring.Gradients
---@return number
function Gradients:dot(other) return self.states:dot(self.shards, check(other).shards) end

--- The norm, in fp64. Collective over all ranks.
---@return number
function Gradients:norm() return math.sqrt(self:dot(self)) end

--- Frees its tensors.
function Gradients:close()
  for _, shard in pairs(self.shards) do shard:close() end
  self.shards = {}
end

--- Takes the gradients of all parameters, which then have none: the next backward begins at 0. Call
--- it after sum_gradients.
---@param states moonring.States
---@return moonring.Gradients
function gradients.take(states)
  local shards = states:take_gradients()
  for _, shard in pairs(shards) do shard:keep() end
  return new(states, shards)
end

--- Makes a gradient that of the parameters, which clipping and the optimizer use. Every rank must
--- call it.
---@param states moonring.States
---@param of moonring.Gradients
function gradients.set(states, of)
  check(of)
  states:clear_gradients()
  for _, parameter in ipairs(states:parameters():list()) do
    local shard = of.shards[parameter:name()]
    if shard then states:set_gradient(parameter:name(), shard) end
  end
end

return gradients
