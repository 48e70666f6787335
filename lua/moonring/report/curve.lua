--- A curve over steps, small enough for a page. Beyond a few thousand points, neighbouring points
-- form groups, and only the minimum and maximum of each group are kept, so no spike is lost. The
-- least and the greatest value of all are exact, and so are the first and the last point.
local system = require "moonring.native.system"

---@class moonring.curve
local curve = {}

---@class moonring.Curve
---@field x number[] steps, ascending
---@field y any[] a number each; null for a non-finite one
---@field points integer number of points that were added
---@field width integer points per group, of which the extremes are kept
---@field ends integer[] the index in x at which each group ends, if width is above 1
---@field open integer points after the end of the last group
---@field least? { x: number, y: number } the least finite value that was added, the first of equals
---@field most? { x: number, y: number } the greatest
local Curve = {}
Curve.__index = Curve

local MOST, FIRST_WIDTH = 3000, 4

--- An empty curve.
---@return moonring.Curve
function curve.new()
  return setmetatable({ x = {}, y = {}, points = 0, width = 1, ends = {}, open = 0 }, Curve)
end

-- The points among [first, last] to keep: the minimum, the maximum, a non-finite one, and the first
-- point of the curve.
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
  return { [least or none] = true, [most or none] = true, [none or least] = true,
    [first == 1 and 1 or least or none] = true }
end

-- Removes points from the groups that end at `ends`; the first group begins after the point
-- `before`. Points after the last group stay.
local function thin(self, ends, before)
  local x, y, at, first = self.x, self.y, before, before + 1
  self.ends = before > 0 and self.ends or {}
  for _, last in ipairs(ends) do
    local stays = kept(y, first, last)
    for i = first, last do
      if stays[i] then
        at = at + 1
        x[at], y[at] = x[i], y[i]
      end
    end
    self.ends[#self.ends + 1], first = at, last + 1
  end
  local count = #x
  for i = first, count do
    at = at + 1
    x[at], y[at] = x[i], y[i]
  end
  for i = at + 1, count do x[i], y[i] = nil, nil end
end

-- Doubles the width of the groups.
local function widen(self)
  local ends = {}
  if self.width == 1 then
    self.width = FIRST_WIDTH
    for last = FIRST_WIDTH, #self.x, FIRST_WIDTH do ends[#ends + 1] = last end
    self.open = #self.x % FIRST_WIDTH
  else
    for i = 2, #self.ends, 2 do ends[#ends + 1] = self.ends[i] end
    if #self.ends % 2 == 1 then self.open = self.open + self.width end
    self.width = 2 * self.width
  end
  thin(self, ends, 0)
end

-- Updates the least and the greatest value.
local function take_extremes(self, x, y)
  if y == system.null then return end
  if not self.least or y < self.least.y then self.least = { x = x, y = y } end
  if not self.most or y > self.most.y then self.most = { x = x, y = y } end
end

-- Removes all points at step x and later. Their values no longer count as extremes, except one at x
-- itself: a run may evaluate twice at a step, during the training and after it.
local function cut(self, x)
  local xs, ys, ends = self.x, self.y, self.ends
  if not xs[1] or xs[#xs] < x then return end
  while xs[1] and xs[#xs] >= x do
    xs[#xs], ys[#ys] = nil, nil
    self.points = self.points - 1
  end
  while ends[1] and ends[#ends] > #xs do ends[#ends] = nil end
  self.open = #xs - (ends[#ends] or 0)
  for _, each in ipairs { self.least or { x = x }, self.most or { x = x } } do
    if each.x > x then
      self.least, self.most = nil, nil
      for i = 1, #xs do take_extremes(self, xs[i], ys[i]) end
      return
    end
  end
end

--- Adds a point at step x. Points at x and later steps are removed first, since a resumed run
--- repeats the steps after its checkpoint.
---@param x number
---@param y any a number, or null
function Curve:add(x, y)
  cut(self, x)
  local xs, ys = self.x, self.y
  if self.width > 1 and self.open >= self.width then -- the last group stays complete until then
    thin(self, { #xs }, self.ends[#self.ends] or 0)
    self.open = 0
  end
  xs[#xs + 1], ys[#ys + 1] = x, y
  take_extremes(self, x, y)
  self.points, self.open = self.points + 1, self.open + 1
  if #xs > MOST then widen(self) end
end

return curve
