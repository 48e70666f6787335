--- Tokens and seconds by step, from the lines of the log, for the x axes of curves. For runs
-- without run_state.json also the mean of tokens per second over the steps in the log.
local curve = require "moonring.report.curve"

---@class moonring.run_clock
local run_clock = {}

---@class moonring.RunClock
---@field tokens moonring.Curve trained tokens, by step
---@field seconds moonring.Curve seconds since the first process of the run began, by step
---@field now number seconds at the last line
---@field before number seconds of earlier processes, if the run was resumed
---@field counted? integer tokens at the last line
---@field step_tokens number tokens between log lines of steps
---@field step_seconds number seconds between log lines of steps
local RunClock = {}
RunClock.__index = RunClock

--- A clock without lines.
---@return moonring.RunClock
function run_clock.new()
  return setmetatable({ tokens = curve.new(), seconds = curve.new(), now = 0, before = 0,
    step_tokens = 0, step_seconds = 0 }, RunClock)
end

-- The seconds of a log line's elapsed_time: "H:MM:SS", after days "N days, H:MM:SS". nil for other
-- text.
local function seconds_of(text)
  local hours, minutes, seconds = tostring(text):match "(%d+):(%d%d):(%d%d)$"
  if not hours then return nil end
  local days = tonumber(text:match "^(%d+) day" or 0)
  return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
end

-- The seconds between the last line and this one, which has the rate of the tokens between them;
-- nil for a line without new tokens.
local function interval(self, line)
  local rate = tonumber(line.tokens_per_second)
  local tokens = (tonumber(line.tokens) or 0) - (self.counted or 0)
  if not rate or rate <= 0 or tokens <= 0 then return nil end
  return tokens / rate, tokens
end

local LEAST = 1e-3 -- seconds between lines, so that no two points have the same x

--- Adds a line of trainer_log.jsonl. elapsed_time has whole seconds; the fraction follows from the
--- rate of tokens. elapsed_seconds, if the line has it, is used instead.
---@param line table<string, any>
function RunClock:add(line)
  local step, exact = line.current_steps, tonumber(line.elapsed_seconds)
  local clock = exact or seconds_of(line.elapsed_time)
  local took, tokens = interval(self, line)
  if took then
    self.step_tokens, self.step_seconds = self.step_tokens + tokens, self.step_seconds + took
  end
  if clock then
    local last = self.now - self.before
    if clock + 1 <= last then -- a resumed run counts from 0 again
      self.before, last = self.now, 0
    end
    local fine = exact or math.min(math.max(last + (took or 0), clock), clock + 1 - LEAST)
    self.now = math.max(self.now + LEAST, self.before + fine)
    self.seconds:add(step, self.now)
  end
  if type(line.tokens) == "number" then
    self.counted = line.tokens
    self.tokens:add(step, line.tokens)
  end
end

--- The mean of tokens per second between the log's lines; nil if no line has a rate.
---@return number?
function RunClock:mean()
  return self.step_seconds > 0 and self.step_tokens / self.step_seconds or nil
end

return run_clock
