--- Measures the time of the steps between two log lines. The log gets the metrics time/PART,
-- seconds per step averaged over the ranks, which add up to the duration of a step. ranks.jsonl in
-- output_dir gets a line:
--
--   {"step":20,"ranks":[{"busy":1.21,"waiting":0.32},{"busy":1.50,"waiting":0.03}]}
--
-- "waiting" is the seconds per step that a rank spent in collectives and transfers, "busy" the
-- rest. Checkpoints do not store these times; a resumed run starts at 0.
local errors = require "moonring.base.errors"
local lines_before = require "moonring.report.lines_before"
local system = require "moonring.native.system"
local times = require "moonring.base.times"
local trainer = require "moonring.native.trainer"

---@class moonring.step_times
local step_times = {}

---@class moonring.StepTimes
---@field mesh moonring.Mesh
---@field times moonring.Times
---@field step integer last step that is logged
---@field say fun(line: string)
---@field lines? moonring.LineFile ranks.jsonl, on rank 0
---@field waits? boolean whether the disk currently cannot store lines, which was logged
local StepTimes = {}
StepTimes.__index = StepTimes

--- Starts to measure. If ranks.jsonl cannot be opened, this is logged, and only the log gets the
--- times.
---@param dir string
---@param of moonring.Times
---@param step integer steps made so far
---@param say fun(line: string)
---@return moonring.StepTimes
function step_times.open(dir, of, step, say)
  local self = setmetatable({ mesh = of.mesh, times = of, step = step, say = say }, StepTimes)
  if self.mesh:rank() ~= 0 then return self end
  local path = dir .. "/ranks.jsonl"
  local ok, lines = pcall(function()
    if system.exists(path) then system.write(path, lines_before.text(path, step)) end
    return trainer.line_file(path, true)
  end)
  if ok then
    self.lines = lines
  else
    say("no ranks.jsonl is written: " .. errors.words(lines))
  end
  return self
end

local function write(self, step, ranks)
  if not self.lines then return end
  local each = {}
  for i, rank in ipairs(ranks) do
    each[i] = ('{"busy":%.6g,"waiting":%.6g}'):format(rank.busy, rank.waiting)
  end
  local line = ('{"step":%d,"ranks":[%s]}'):format(step, table.concat(each, ","))
  local ok, why = pcall(self.lines.append, self.lines, line)
  why = not ok and errors.words(why) or nil
  if (why ~= nil) ~= (self.waits or false) then
    self.waits = why ~= nil
    self.say(why and "ranks.jsonl waits: " .. why .. "; training continues"
      or "ranks.jsonl is written again")
  end
end

--- Returns the times since the last call, for the log, and writes a line of ranks.jsonl. Collective
--- over all ranks.
---@param step integer steps made
---@return table<string, number> by their names in the log
function StepTimes:take(step)
  local seconds, waiting = self.times:take()
  local steps = math.max(step - self.step, 1)
  self.step = step
  local mine = { waiting }
  for i, part in ipairs(times.parts) do mine[i + 1] = seconds[part] end
  for i, number in ipairs(mine) do mine[i] = ("%.9g"):format(number / steps) end
  local named, ranks = {}, {}
  for rank, text in ipairs(self.mesh:gather(table.concat(mine, " "))) do
    local numbers, all = {}, 0
    for number in text:gmatch "%S+" do numbers[#numbers + 1] = tonumber(number) end
    for i, part in ipairs(times.parts) do
      local name = "time/" .. part
      named[name] = (named[name] or 0) + numbers[i + 1] / self.mesh:size()
      all = all + numbers[i + 1]
    end
    ranks[rank] = { busy = all - numbers[1], waiting = numbers[1] }
  end
  write(self, step, ranks)
  return named
end

return step_times
