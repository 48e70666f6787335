--- Detects a slow rank. All ranks wait for the slowest, so a step takes the same time on every
-- rank; a rank's own work is this time minus the time it waited for others (mesh:waited). On GPUs
-- only the host's waiting is known. The value is then exact if ranks communicate once per step
-- (dp), and too small if they also communicate within a step.
local system = require "moonring.native.system"

---@class moonring.pace
local pace = {}

---@class moonring.Pace
---@field began number when the step began, by system.clock
---@field waited number mesh:waited() at that time
---@field slow table<integer, integer> by rank, from 1: number of slow steps in a row
---@field own table<integer, number> by rank: seconds of its own work in these steps
---@field mesh moonring.Mesh
---@field say fun(line: string)
local Pace = {}
Pace.__index = Pace

local STEPS, FACTOR = 10, 1.5
local SLOW = "rank %d of %d is slow: %.3g s of its own work a step, over %d steps in a row; the "
  .. "ranks' median is %.3g s"

-- The median of the ranks' times. Of an even number it is the lower middle one: with two ranks the
-- faster rank's time, because the slower rank's could never exceed FACTOR times itself.
local function median(numbers)
  local sorted = { unpack(numbers) }
  table.sort(sorted)
  return sorted[math.ceil(#sorted / 2)]
end

--- The pace of a run.
---@param mesh moonring.Mesh
---@param say fun(line: string) logs a line
---@return moonring.Pace
function pace.new(mesh, say)
  return setmetatable({ mesh = mesh, say = say, slow = {}, own = {} }, Pace)
end

--- Records the seconds of each rank's own work in a step.
---@param seconds number[]
function Pace:take(seconds)
  local middle = median(seconds)
  for rank, own in ipairs(seconds) do
    local slow = own > FACTOR * middle
    self.slow[rank] = slow and (self.slow[rank] or 0) + 1 or 0
    self.own[rank] = slow and (self.own[rank] or 0) + own or 0
    if self.slow[rank] == STEPS then
      self.say(SLOW:format(rank - 1, #seconds, self.own[rank] / STEPS, STEPS, middle))
    end
  end
end

--- Starts to measure a step. Call it at the step's beginning.
function Pace:begin() self.began, self.waited = system.clock(), self.mesh:waited() end

--- Measures how long each rank worked in this step. Call it at the step's end. Collective over all
--- ranks.
function Pace:finish()
  if self.mesh:size() == 1 then return end
  local waited = self.mesh:waited() - self.waited
  self:take(self.mesh:gather_numbers(system.clock() - self.began - waited))
end

return pace
