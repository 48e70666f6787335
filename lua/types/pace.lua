---@meta moonring.pace

--- Notices a rank that is slow: one whose own work at a step takes more than 1.5 times the ranks' median, for 10 steps in a row.
---@class moonring.pace
local pace = {}

--- The pace of a run.
---@param mesh moonring.Mesh
---@param say fun(line: string) takes a line for the log
---@return moonring.Pace
function pace.new(mesh, say) end

---@class moonring.Pace
---@field began number when the step began, by system.clock
---@field waited number what mesh:waited() was then
---@field slow table<integer, integer> of each rank, from 1: slow steps in a row
---@field own table<integer, number> the seconds that these took
---@field mesh moonring.Mesh
---@field say fun(line: string)
local Pace = {}

--- The beginning of a step.
function Pace:begin() end

--- Its end. Collective over all ranks.
function Pace:finish() end

--- Takes the seconds that each rank worked at a step.
---@param seconds number[]
function Pace:take(seconds) end

return pace
