--- report_to: where a run's numbers go besides trainer_log.jsonl. A tracker is a table of functions
-- that take what happens; those that it lacks it is not told of:
--
--   begin(facts)                      once, of a run that does not go on from a checkpoint
--   numbers(step, by_name)            a line of the log, under the names of the Trainer's callbacks
--   text(step, tag, text)
--   lengths(tag, list)                of documents
--   finish(step)                      the run ended well
--   notes()                           lines for the terminal
--
-- A tracker that fails never harms the run: what is wrong is said once. From rank 0.
local config = require "moonring.config"
local errors = require "moonring.base.errors"
local lines = require "moonring.report.trackers.lines"
local sandbox = require "moonring.sandbox"
local system = require "moonring.native.system"
local tensorboard = require "moonring.report.trackers.tensorboard"

---@class moonring.trackers
local trackers = {}

---@class moonring.TrackerFacts
---@field name string of the run
---@field configuration table<string, number | boolean | string> each key that acts
---@field model_config? string the model's config.json
---@field lengths? integer[] of the data's documents
---@field examples string[] the first ones, as text

---@class moonring.TrackerOptions
---@field first_step integer steps already made, where the run goes on
---@field folder? string where it has been reporting to, beside or in output_dir
---@field say fun(line: string) takes a line for the terminal

---@class moonring.Trackers
---@field folder string logging_dir, or the default in output_dir
---@field say fun(line: string)
---@field open table[] { name, tracker, failed }
local Trackers = {}
Trackers.__index = Trackers

-- In the order in which they are opened.
local OPEN = {
  { "tensorboard", tensorboard.open },
  { "jsonl", lines.open_file },
  { "command", lines.open_program },
}

-- Of the Trainer's, and LLaMA-Factory's own.
local ELSEWHERE = {}
for _, name in ipairs { "azure_ml", "clearml", "codecarbon", "comet_ml", "dagshub", "dvclive",
  "flyte", "mlflow", "neptune", "swanlab", "trackio", "wandb" } do
  ELSEWHERE[name] = true
end

-- YAML 1.1 reads a plain `no` as false.
local NOBODY = { none = true, no = true, off = true, ["false"] = true, null = true, [""] = true }

-- Which ones a configuration asks for, as a set, and a list of those that are not built in.
local function wanted(c)
  local asked, set, elsewhere = c.report_to, {}, {}
  for _, name in ipairs(type(asked) == "table" and asked or { asked }) do
    if name == "all" then
      set.tensorboard, set.jsonl = true, true
      set.command = set.command or c.report_command ~= nil
    elseif ELSEWHERE[name:lower()] then
      elsewhere[#elsewhere + 1] = name
    elseif not NOBODY[name:lower()] then
      set[name] = true
    end
  end
  return set, elsewhere
end

-- What becomes of loggers that are not built in.
local function note_elsewhere(c, names)
  if #names == 0 then return end
  c.notes[#c.notes + 1] = ("report_to: %s %s told nothing, since no such logger is built in: "
    .. "trainer_log.jsonl has every line; report_to: tensorboard writes files that most trackers "
    .. "read, and report_to: command hands each line to a program of yours (report_command)")
    :format(table.concat(names, ", "), #names > 1 and "are" or "is")
end

--- Refuses trackers that nobody knows; those of Transformers that are not built in are noted.
---@param c moonring.Configuration
function trackers.check(c)
  local known = { "none", "all" }
  for _, row in ipairs(OPEN) do known[#known + 1] = row[1] end
  local is_known = {}
  for _, name in ipairs(known) do is_known[name] = true end
  local set, elsewhere = wanted(c)
  note_elsewhere(c, elsewhere)
  local near = { unpack(known) }
  for name in pairs(ELSEWHERE) do near[#near + 1] = name end
  table.sort(near)
  for name in pairs(set) do
    if not is_known[name] then
      config.fail("report_to: wanted ", table.concat(known, ", "), " or a list of them, got '",
        name, "'", system.did_you_mean(name, near))
    end
  end
  if not set.command then return end
  lines.command(c)
  if sandbox.is_confined() then
    errors.raise("PERMISSION_DENIED", "report_to: command: --sandbox: a report starts no program")
  end
end

-- As the Trainer names it: Nov26_10-13-19_HOST.
local function default_folder()
  local ok, host = pcall(system.read, "/proc/sys/kernel/hostname")
  return "runs/" .. os.date "%b%d_%H-%M-%S" .. "_" .. (ok and host:match "%S+" or "host")
end

-- Calls a function of a tracker. Where it fails that is said, once until it works again.
local function call(self, each, verb, ...)
  local f = each.tracker[verb]
  if not f then return nil end
  local ok, result = pcall(f, ...)
  if ok ~= not each.failed then
    each.failed = not ok
    self.say(("report_to: %s: %s"):format(each.name, ok and "it is written again"
      or errors.words(result) .. "; training goes on"))
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

--- Opens what report_to names; nil where it names none.
---@param c moonring.Configuration
---@param given moonring.TrackerOptions
---@return moonring.Trackers?
function trackers.open(c, given)
  local asked = wanted(c)
  if next(asked) == nil then return nil end
  local folder = given.folder or default_folder()
  local self = setmetatable({ folder = folder, say = given.say, open = {} }, Trackers)
  local path = c.logging_dir or c.output_dir .. "/" .. folder
  for _, row in ipairs(OPEN) do
    if asked[row[1]] then
      local ok, tracker = pcall(row[2], c, path, given.first_step)
      if ok then
        self.open[#self.open + 1] = { name = row[1], tracker = tracker }
      else
        given.say(("report_to: %s: %s; training goes on without it"):format(row[1],
          errors.words(tracker)))
      end
    end
  end
  return self
end

--- The beginning of a run.
---@param facts_of fun(): moonring.TrackerFacts
function Trackers:begin(facts_of)
  local ok, facts = pcall(facts_of)
  if not ok then
    return self.say("report_to: what the run begins with is left out: " .. errors.words(facts))
  end
  tell(self, "begin", facts)
  if facts.lengths and #facts.lengths > 0 then
    tell(self, "lengths", "data/document_lengths", facts.lengths)
  end
  for i, text in ipairs(facts.examples) do self:text(0, "data/example_" .. i, text) end
end

-- Of a line of the log: what is no number of the training.
local PASSED = { current_steps = true, total_steps = true, percentage = true }
-- Those that the Trainer calls otherwise.
local NAMES = { lr = "learning_rate", tokens = "num_input_tokens_seen" }

--- The numbers of a line of trainer_log.jsonl under the names of the Trainer's callbacks:
--- train/loss, train/learning_rate, eval/loss, ... NaN and infinities, null in that file, are
--- left out.
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

--- A line of the log.
---@param line string as trainer_log.jsonl has it
function Trackers:log(line)
  local read = system.json_decode(line, "a line of the log")
  tell(self, "numbers", read.current_steps, trackers.named(read))
end

--- A text: what a model has answered.
---@param step integer
---@param tag string
---@param text string
function Trackers:text(step, tag, text) tell(self, "text", step, tag, text) end

--- The end of a run, with what the Trainer logs then.
---@param step integer
---@param results table<string, number> train_results.json
function Trackers:finish(step, results)
  local named = {}
  for name, value in pairs(results) do
    if type(value) == "number" then named["train/" .. name] = value end
  end
  tell(self, "numbers", step, named)
  tell(self, "finish", step)
  for _, each in ipairs(self.open) do
    if each.tracker.close then each.tracker.close() end
  end
  self.open = {}
end

return trackers
