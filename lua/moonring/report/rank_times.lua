--- Sums how long each rank worked and waited, from the lines of ranks.jsonl, and finds the slowest
-- rank.

---@class moonring.rank_times
local rank_times = {}

---@class moonring.RankTimes
---@field lines integer
---@field busy number[] by rank: total seconds of its own work
---@field waiting number[] by rank: total seconds of waiting for others
---@field slowest integer[] by rank: how often it had the most work
---@field last table[] the ranks' values in the last line: { busy, waiting } each
---@field step? integer the step of the last line
local RankTimes = {}
RankTimes.__index = RankTimes

--- Creates the sums; no lines have been added yet.
---@return moonring.RankTimes
function rank_times.new()
  return setmetatable({ lines = 0, busy = {}, waiting = {}, slowest = {}, last = {} }, RankTimes)
end

--- Adds a line of the form { step, ranks = { { busy, waiting }, ... } }, in seconds. Lines of
--- another form are ignored.
---@param line any
function RankTimes:add(line)
  local ranks = type(line) == "table" and line.ranks
  if type(ranks) ~= "table" or not ranks[1] then return end
  local most = 1
  for i, each in ipairs(ranks) do
    local busy, waiting = tonumber(each.busy) or 0, tonumber(each.waiting) or 0
    self.busy[i] = (self.busy[i] or 0) + busy
    self.waiting[i] = (self.waiting[i] or 0) + waiting
    self.slowest[i] = self.slowest[i] or 0
    if busy > (tonumber(ranks[most].busy) or 0) then most = i end
  end
  self.slowest[most] = self.slowest[most] + 1
  self.lines, self.last, self.step = self.lines + 1, ranks, line.step
end

--- The data for a page; nil if there are no lines.
---@return table?
function RankTimes:data()
  if self.lines == 0 then return nil end
  return { lines = self.lines, busy = self.busy, waiting = self.waiting, slowest = self.slowest,
    last = self.last, step = self.step }
end

return rank_times
