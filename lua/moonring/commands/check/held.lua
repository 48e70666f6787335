--- Holds the values that an objective detaches. The gradient of an objective with `surrogate` is
-- that of its value with these as constants, so finite differences must not let them change.
local tensor = require "moonring.native.tensor"

---@class moonring.check_held
---@field mode? "record" | "replay"
---@field values moonring.Tensor[]
---@field at integer how many values were recorded, or returned
local held = {}
held.values, held.at = {}, 0

--- Begins to record the values, or to return the recorded ones in the same order; nil: neither.
---@param mode? "record" | "replay"
function held.begin(mode)
  held.mode, held.at = mode, 0
  if mode == "record" then held.values = {} end
end

--- How many values were recorded.
---@return integer
function held.count() return #held.values end

--- Replaces Tensor:detach for calls from a file.
---@param is_own fun(source: string): boolean
function held.install(is_own)
  local class = debug.getmetatable(tensor.tensor { 0 })
  local index = class.__index
  local detach = index(tensor.tensor { 0 }, "detach")
  local function hold(x)
    local info = held.mode and debug.getinfo(2, "S")
    if not info or not is_own(info.source) then return detach(x) end
    held.at = held.at + 1
    if held.mode == "replay" then return held.values[held.at] end
    held.values[held.at] = detach(x):clone():keep()
    return detach(x)
  end
  class.__index = function(x, key)
    if key == "detach" then return hold end
    return index(x, key)
  end
end

return held
