---@meta moonring.readings

--- Numbers that are wanted later: gathered over a step's micro-batches and read together, so that a device is waited for once.
---@class moonring.readings
local readings = {}

--- Nothing is wanted yet.
---@return moonring.Readings
function readings.new() end

---@class moonring.Readings
---@field tensors moonring.Tensor[] what is to be read
---@field wants table[] who wants which of it
local Readings = {}

--- Notes what is wanted. Tensors outlive the scope that they were made in.
---@param values any[] numbers, and tensors with one dim at the most
---@param take fun(numbers: number[]) is called by `read`, with all their numbers in one list
function Readings:want(values, take) end

--- Reads all that is wanted, by one copy, and calls each `take` in the order in which it was wanted.
function Readings:read() end

return readings
