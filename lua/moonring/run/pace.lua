--- Notices a rank that is slow. Every rank's step takes the same time, since all wait for the
-- slowest: what tells is the time of a step less what went into waiting for others (mesh:waited).
-- On GPUs this is what the host did not wait for: exact where ranks meet once a step (dp), too
-- little where they exchange within it.
local system = require "moonring.native.system"

---@class moonring.pace
local pace = {}

---@class moonring.Pace
---@field began number when the step began, by system.clock
---@field waited number what mesh:waited() was then
---@field slow table<integer, integer> of each rank, from 1: slow steps in a row
---@field own table<integer, number> the seconds that these took
---@field mesh moonring.Mesh
---@field say fun(line: string)
local Pace = {}
Pace.__index = Pace

local STEPS, FACTOR = 10, 1.5
local SLOW = "rank %d of %d is slow: %.3g s of its own work a step, over %d steps in a row; the "
  .. "ranks' median is %.3g s"

-- The lower one of an even number: of two ranks the faster one's, which the slower one's would else
-- hide itself in.
local function median(numbers)
  local sorted = { unpack(numbers) }
  table.sort(sorted)
  return sorted[math.ceil(#sorted / 2)]
end

--- The pace of a run.
---@param mesh moonring.Mesh
---@param say fun(line: string) takes a line for the log
---@return moonring.Pace
function pace.new(mesh, say)
  return setmetatable({ mesh = mesh, say = say, slow = {}, own = {} }, Pace)
end

--- Takes the seconds that each rank worked at a step.
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

--- The beginning of a step.
function Pace:begin() self.began, self.waited = system.clock(), self.mesh:waited() end

--- Its end. Collective over all ranks.
function Pace:finish()
  if self.mesh:size() == 1 then return end
  local waited = self.mesh:waited() - self.waited
  self:take(self.mesh:gather_numbers(system.clock() - self.began - waited))
end

return pace
