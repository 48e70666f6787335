--- Where a run's time goes on this rank: seconds by part, which do not overlap and add up to what
-- has passed. Where the run is traced (report/traces.lua) the same parts are spans of the trace.
--
--   data           waiting for the next step's examples
--   forward        of the model and the objective, and of a reference; counts and surveys before it
--   backward       with what is computed again in it
--   communication  in collectives and transfers, waiting included, in and between these parts and
--                  the optimizer; the whole of the gradients' sum
--   optimizer      norm, clipping, the optimizer's step, publishing weights
--   rollouts       generating and judging what is learnt from
--   evaluation, saving   with their communication
--   other          the rest: the log, a script's own work
--
-- On a GPU these are the host's seconds: it is ahead of the device until it reads the loss, which
-- counts as backward.
local system = require "moonring.native.system"

---@class moonring.times
---@field parts string[] in the order of a step
local times = {}

---@class moonring.Times
---@field mesh moonring.Mesh
---@field part string that time counts for now
---@field innermost string the part of the innermost span, which may lie within `part`
---@field seconds table<string, number> by part, since the last take
---@field waiting number of these in collectives and transfers, in all parts
---@field at number by system.clock, up to when all is counted
---@field waited number what mesh:waited() was then
---@field recorder? moonring.Recorder where the run is being traced
local Times = {}
Times.__index = Times

--- The parts, in the order of a step.
times.parts = { "data", "forward", "backward", "communication", "optimizer", "rollouts",
  "evaluation", "saving", "other" }

-- Those that all that happens within them counts for.
local WHOLE = { communication = true, rollouts = true, evaluation = true, saving = true }

--- Begins to count.
---@param mesh moonring.Mesh
---@return moonring.Times
function times.new(mesh)
  local self = setmetatable({ mesh = mesh }, Times)
  self:begin()
  return self
end

-- Counts what has passed for the part that is under way.
local function charge(self)
  local now, waited = system.clock(), self.mesh:waited()
  local seconds, part = self.seconds, self.part
  local passed, in_calls = now - self.at, waited - self.waited
  self.waiting = self.waiting + in_calls
  if not WHOLE[part] then
    seconds.communication = seconds.communication + in_calls
    passed = passed - in_calls
  end
  seconds[part] = seconds[part] + passed
  self.at, self.waited = now, waited
end

--- Forgets what was counted so far.
function Times:begin()
  self.seconds, self.waiting, self.part, self.innermost = {}, 0, "other", "other"
  for _, part in ipairs(times.parts) do self.seconds[part] = 0 end
  self.at, self.waited = system.clock(), self.mesh:waited()
end

--- Seconds by part since the last call, and how many of them were in collectives and transfers.
---@return table<string, number> seconds
---@return number waiting
function Times:take()
  charge(self)
  local seconds, waiting, part, innermost = self.seconds, self.waiting, self.part, self.innermost
  self:begin()
  self.part, self.innermost = part, innermost
  return seconds, waiting
end

-- The end of a part: back to the one around it. What an error has left open ends with it.
local function leave(self, part, innermost, recorder, span, ...)
  if self.part ~= part then
    charge(self)
    self.part = part
  end
  self.innermost = innermost
  if span and recorder == self.recorder then recorder:finish(span) end
  return ...
end

--- Runs a function as a part of the run, under a name of its own in traces. `self` may be nil, and
--- then nothing is counted.
---@param self moonring.Times?
---@param part string
---@param name string
---@param f function
---@param ... any its arguments
---@return any ... what it returns
function times.named(self, part, name, f, ...)
  if not self or self.innermost == part and name == part then return f(...) end
  local outer, innermost, recorder = self.part, self.innermost, self.recorder
  local span = recorder and recorder:begin(name, "part")
  self.innermost = part
  if outer ~= part and not WHOLE[outer] then
    charge(self)
    self.part = part
  end
  return leave(self, outer, innermost, recorder, span, f(...))
end

--- The same under the part's name.
---@param self moonring.Times?
---@param part string
---@param f function
---@param ... any its arguments
---@return any ... what it returns
function times.within(self, part, f, ...) return times.named(self, part, part, f, ...) end

return times
