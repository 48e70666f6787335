--- Measures how a run spends its time on this rank: seconds by part. The parts do not overlap, and
-- they add up to the elapsed time. If the run is traced (report/traces.lua), the trace shows the
-- same parts.
--
--   data           waiting for the next step's examples
--   forward        forward of model, objective and reference, and the counts that precede it
--   backward       backward, including recomputation
--   communication  collectives and transfers, including waiting, in and between the parts above and
--                  the optimizer; the whole all-reduce of gradients
--   optimizer      gradient norm, clipping, optimizer step, publishing weights
--   rollouts       generating and judging completions
--   evaluation, saving   including their communication
--   other          the rest: logging, custom code of a script
--
-- On a GPU these are host seconds. The host runs ahead of the device until it reads the loss; that
-- wait counts as backward.
local system = require "moonring.native.system"

---@class moonring.times
---@field parts string[] in the order of a step
local times = {}

---@class moonring.Times
---@field mesh moonring.Mesh
---@field part string the part for which time is counted now
---@field innermost string the part of the innermost span, which may be nested in `part`
---@field seconds table<string, number> by part, since the last take
---@field waiting number seconds among them in collectives and transfers, over all parts
---@field at number the time, by system.clock, up to which seconds have been counted
---@field waited number mesh:waited() at that time
---@field recorder? moonring.Recorder present while the run is traced
local Times = {}
Times.__index = Times

--- The parts, in the order of a step.
times.parts = { "data", "forward", "backward", "communication", "optimizer", "rollouts",
  "evaluation", "saving", "other" }

-- Parts that also contain everything measured inside of them, even communication.
local WHOLE = { communication = true, rollouts = true, evaluation = true, saving = true }

--- Starts counting.
---@param mesh moonring.Mesh
---@return moonring.Times
function times.new(mesh)
  local self = setmetatable({ mesh = mesh }, Times)
  self:begin()
  return self
end

-- Adds the time since the last call to the part that is being measured.
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

--- Resets all counters.
function Times:begin()
  self.seconds, self.waiting, self.part, self.innermost = {}, 0, "other", "other"
  for _, part in ipairs(times.parts) do self.seconds[part] = 0 end
  self.at, self.waited = system.clock(), self.mesh:waited()
end

--- Returns the seconds by part since the last call, and how many of them were spent in collectives
--- and transfers. Then starts again from 0.
---@return table<string, number> seconds
---@return number waiting
function Times:take()
  charge(self)
  local seconds, waiting, part, innermost = self.seconds, self.waiting, self.part, self.innermost
  self:begin()
  self.part, self.innermost = part, innermost
  return seconds, waiting
end

-- Ends a part and returns to the enclosing one. Also ends spans that an error left open.
local function leave(self, part, innermost, recorder, span, ...)
  if self.part ~= part then
    charge(self)
    self.part = part
  end
  self.innermost = innermost
  if span and recorder == self.recorder then recorder:finish(span) end
  return ...
end

--- Calls f and counts its time for a part; `name` is the span's name in traces. If `self` is nil,
--- nothing is counted.
---@param self moonring.Times?
---@param part string
---@param name string
---@param f function
---@param ... any arguments of f
---@return any ... results of f
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

--- Calls f and counts its time for a part, whose name is also the span's name in traces.
---@param self moonring.Times?
---@param part string
---@param f function
---@param ... any arguments of f
---@return any ... results of f
function times.within(self, part, f, ...) return times.named(self, part, part, f, ...) end

return times
