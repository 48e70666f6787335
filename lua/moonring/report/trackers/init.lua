--- The key report_to: sends a run's metrics to trackers, in addition to trainer_log.jsonl. A
-- tracker is a table of functions, all of them optional, which are called for events:
--
--   begin(facts)                      once, unless the run resumes from a checkpoint
--   numbers(step, by_name)            a log line, under the names of the Trainer's callbacks
--   text(step, tag, text)             a text, such as a model's answer
--   lengths(tag, list)                lengths of documents
--   finish(step, state, reason)       the run has ended: finished, stopped or failed
--   notes()                           returns lines for the terminal
--
-- A failing tracker does not affect the run; its error is logged once. On rank 0.
local choice = require "moonring.report.trackers.choice"
local errors = require "moonring.base.errors"
local hardware = require "moonring.base.hardware"
local system = require "moonring.native.system"

---@class moonring.trackers
local trackers = {}

---@class moonring.TrackerFacts
---@field name string of the run
---@field configuration table<string, number | boolean | string> each key that has an effect
---@field model_config? string the model's config.json
---@field lengths? integer[] lengths of the data's documents
---@field examples string[] the first examples, as text

---@class moonring.TrackerOptions
---@field first_step integer steps already made, in a resumed run
---@field folder? string the folder used so far, in output_dir
---@field say fun(line: string) logs a line

---@class moonring.Trackers
---@field folder string logging_dir, or the default in output_dir
---@field say fun(line: string)
---@field open table[] { name, tracker, failed }
local Trackers = {}
Trackers.__index = Trackers

--- Refuses unknown trackers, and programs under --sandbox. Adds a note for trackers of Transformers
--- that are not supported.
---@param c moonring.Configuration
function trackers.check(c) choice.check(c) end

-- The default folder, named as by the Trainer: Nov26_10-13-19_HOST.
local function default_folder()
  return "runs/" .. os.date "%b%d_%H-%M-%S" .. "_" .. (hardware.host() or "host")
end

-- Calls a function of a tracker. An error is logged once; after a successful call the next error is
-- logged again.
local function call(self, each, verb, ...)
  local f = each.tracker[verb]
  if not f then return nil end
  local ok, result = pcall(f, ...)
  if ok ~= not each.failed then
    each.failed = not ok
    self.say(("report_to: %s: %s"):format(each.name, ok and "it works again"
      or errors.words(result) .. "; training continues"))
  end
  return ok and result or nil
end

local function tell(self, verb, ...)
  for _, each in ipairs(self.open) do call(self, each, verb, ...) end
  for _, each in ipairs(self.open) do
    for _, note in ipairs(call(self, each, "notes") or {}) do
      self.say(("report_to: %s: %s"):format(each.name, note))
    end
  end
end

--- Opens the trackers of report_to; nil if there are none.
---@param c moonring.Configuration
---@param given moonring.TrackerOptions
---@return moonring.Trackers?
function trackers.open(c, given)
  local asked = choice.of(c)
  if #asked == 0 then return nil end
  local folder = given.folder or default_folder()
  local self = setmetatable({ folder = folder, say = given.say, open = {} }, Trackers)
  local path = c.logging_dir or c.output_dir .. "/" .. folder
  for _, row in ipairs(asked) do
    local ok, tracker = pcall(row.open, c, path, given.first_step)
    if ok then
      self.open[#self.open + 1] = { name = row.name, tracker = tracker }
    else
      given.say(("report_to: %s: %s; training continues without it"):format(row.name,
        errors.words(tracker)))
    end
  end
  return self
end

--- Reports the beginning of a run.
---@param facts_of fun(): moonring.TrackerFacts
function Trackers:begin(facts_of)
  local ok, facts = pcall(facts_of)
  if not ok then
    return self.say("report_to: the facts about the run are omitted: " .. errors.words(facts))
  end
  tell(self, "begin", facts)
  if facts.lengths and #facts.lengths > 0 then
    tell(self, "lengths", "data/document_lengths", facts.lengths)
  end
  for i, text in ipairs(facts.examples) do self:text(0, "data/example_" .. i, text) end
end

-- Fields of a log line that are not metrics of the training.
local PASSED = { current_steps = true, total_steps = true, percentage = true,
  elapsed_seconds = true }
-- Fields with other names in the Trainer.
local NAMES = { lr = "learning_rate", tokens = "num_input_tokens_seen" }

--- Converts a line of trainer_log.jsonl to the names of the Trainer's callbacks: train/loss,
--- train/learning_rate, eval/loss, ... NaN and infinities, which are null in that file, are
--- omitted.
---@param line table<string, any>
---@return table<string, number>
function trackers.named(line)
  local named, is_evaluation = {}, false
  for name in pairs(line) do is_evaluation = is_evaluation or name:find "^eval_" ~= nil end
  for name, value in pairs(line) do
    local of_evaluation = name:match "^eval_(.+)$"
    if type(value) == "number" and not PASSED[name] then
      if of_evaluation then
        named["eval/" .. of_evaluation] = value
      elseif not is_evaluation or name == "epoch" then
        named["train/" .. (NAMES[name] or name)] = value
      end
    end
  end
  return named
end

--- Reports a log line.
---@param line string as in trainer_log.jsonl
function Trackers:log(line)
  local read = system.json_decode(line, "a line of the log")
  tell(self, "numbers", read.current_steps, trackers.named(read))
end

--- Reports a text, such as a model's answer.
---@param step integer
---@param tag string
---@param text string
function Trackers:text(step, tag, text) tell(self, "text", step, tag, text) end

-- Ends all trackers.
local function close(self, ...)
  tell(self, "finish", ...)
  for _, each in ipairs(self.open) do
    if each.tracker.close then each.tracker.close() end
  end
  self.open = {}
end

--- Reports the end of a finished run, with the metrics that the Trainer logs then.
---@param step integer
---@param results table<string, number> train_results.json
function Trackers:finish(step, results)
  local named = {}
  for name, value in pairs(results) do
    if type(value) == "number" then named["train/" .. name] = value end
  end
  tell(self, "numbers", step, named)
  close(self, step, "finished")
end

--- Reports the end of a run that has not finished.
---@param step integer
---@param state "stopped" | "failed"
---@param reason string the signal, or the error
function Trackers:stop(step, state, reason) close(self, step, state, reason) end

return trackers
