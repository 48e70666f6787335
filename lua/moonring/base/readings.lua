--- Numbers that are wanted later: what micro-batches leave of a step is read at its end, together,
-- so that a device is waited for once. Reading a number at once makes the host wait for all that
-- the device still has to do, and then the device for the host.
local tensor = require "moonring.native.tensor"

---@class moonring.readings
local readings = {}

---@class moonring.Readings
---@field tensors moonring.Tensor[] what is to be read
---@field wants table[] who wants which of it
local Readings = {}
Readings.__index = Readings

--- Nothing is wanted yet.
---@return moonring.Readings
function readings.new() return setmetatable({ tensors = {}, wants = {} }, Readings) end

--- Notes what is wanted. Tensors outlive the scope that they were made in.
---@param values any[] numbers, and tensors with one dim at the most
---@param take fun(numbers: number[]) is called by `read`, with all their numbers in one list
function Readings:want(values, take)
  local places = {}
  for i, value in ipairs(values) do
    if type(value) == "number" then
      places[i] = { number = value }
    else
      self.tensors[#self.tensors + 1] = value:detach():keep()
      places[i] = { tensor = #self.tensors }
    end
  end
  self.wants[#self.wants + 1] = { places = places, take = take }
end

-- The numbers at some places, in one list.
local function flattened(places, read)
  local numbers = {}
  for _, place in ipairs(places) do
    local value = place.number or read[place.tensor]
    for _, number in ipairs(type(value) == "table" and value or { value }) do
      numbers[#numbers + 1] = number
    end
  end
  return numbers
end

--- Reads all that is wanted, by one copy, and calls each `take` in the order in which it was
--- wanted.
function Readings:read()
  local tensors, wants = self.tensors, self.wants
  self.tensors, self.wants = {}, {}
  local read = tensor.fetch(tensors)
  for _, each in ipairs(tensors) do each:close() end
  for _, want in ipairs(wants) do want.take(flattened(want.places, read)) end
end

return readings
