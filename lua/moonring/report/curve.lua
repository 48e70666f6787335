--- A curve over steps that a page can hold: beyond a few thousand points every other one goes. Of
-- neighbours the least and the greatest stay, so that no spike is lost.
local system = require "moonring.native.system"

---@class moonring.curve
local curve = {}

---@class moonring.Curve
---@field x number[] steps, rising
---@field y any[] a number each; null: one that is not finite
---@field points integer how many there were
local Curve = {}
Curve.__index = Curve

local MOST = 3000

--- No points.
---@return moonring.Curve
function curve.new() return setmetatable({ x = {}, y = {}, points = 0 }, Curve) end

-- Which of the points [first, last] stay: the least, the greatest, and one that is no number.
local function kept(ys, first, last)
  local least, most, none
  for i = first, last do
    if ys[i] == system.null then
      none = i
    else
      if not least or ys[i] < ys[least] then least = i end
      if not most or ys[i] >= ys[most] then most = i end
    end
  end
  return { [least or none] = true, [most or none] = true, [none or least] = true }
end

local function thin(self)
  local xs, ys = { self.x[1] }, { self.y[1] }
  for first = 2, #self.x - 1, 4 do
    local last = math.min(first + 3, #self.x - 1)
    local stays = kept(self.y, first, last)
    for i = first, last do
      if stays[i] then xs[#xs + 1], ys[#ys + 1] = self.x[i], self.y[i] end
    end
  end
  xs[#xs + 1], ys[#ys + 1] = self.x[#self.x], self.y[#self.y]
  self.x, self.y = xs, ys
end

--- Adds a point. Those from its step on go first: a run that goes on from a checkpoint makes its
--- last steps again.
---@param x number
---@param y any a number, or null
function Curve:add(x, y)
  local xs, ys = self.x, self.y
  while xs[1] and xs[#xs] >= x do
    xs[#xs], ys[#ys] = nil, nil
    self.points = self.points - 1
  end
  xs[#xs + 1], ys[#ys + 1] = x, y
  self.points = self.points + 1
  if #xs > MOST then thin(self) end
end

return curve
