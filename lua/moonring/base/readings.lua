--- Deferred reads of numbers from the device. The sums of all micro-batches of a step are read
-- together at its end, with one synchronization. If each number were read immediately, the host
-- would wait for the device each time, and the device would then be idle until the host has queued
-- more work.
local tensor = require "moonring.native.tensor"

---@class moonring.readings
local readings = {}

---@class moonring.Readings
---@field tensors moonring.Tensor[] tensors to be read
---@field wants table[] requests: the numbers of each, and the function that receives them
local Readings = {}
Readings.__index = Readings

--- A new object without requests.
---@return moonring.Readings
function readings.new() return setmetatable({ tensors = {}, wants = {} }, Readings) end

--- Requests numbers. The tensors stay in memory beyond the scope in which they were created.
---@param values any[] numbers, and tensors with at most one dim
---@param take fun(numbers: number[]) called by `read` with all the numbers in one list
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

-- Concatenates the numbers of one request into one list.
local function flattened(places, read)
  local numbers = {}
  for _, place in ipairs(places) do
    local value = place.number or read[place.tensor]
    for _, number in ipairs(type(value) == "table" and value or { value }) do
      if type(number) == "boolean" then number = number and 1 or 0 end -- of a bool tensor
      numbers[#numbers + 1] = number
    end
  end
  return numbers
end

--- Reads all requested tensors with one copy, then calls each `take` in the order of the requests.
function Readings:read()
  local tensors, wants = self.tensors, self.wants
  self.tensors, self.wants = {}, {}
  local read = tensor.fetch(tensors)
  for _, each in ipairs(tensors) do each:close() end
  for _, want in ipairs(wants) do want.take(flattened(want.places, read)) end
end

return readings
