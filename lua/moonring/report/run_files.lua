--- Reads the files of a run for a page. Nothing is written. Files that grow while the run is in
-- progress are read incrementally: each line is read once.
local curve = require "moonring.report.curve"
local errors = require "moonring.base.errors"
local growing_file = require "moonring.report.growing_file"
local log_line = require "moonring.report.log_line"
local rank_times = require "moonring.report.rank_times"
local run_clock = require "moonring.report.run_clock"
local run_samples = require "moonring.report.run_samples"
local run_settings = require "moonring.report.run_settings"
local run_status = require "moonring.report.run_status"
local system = require "moonring.native.system"

---@class moonring.run_files
local run_files = {}

---@class moonring.RunFiles
---@field folder string
---@field name string its name on the page
---@field curves table<string, moonring.Curve> by metric, from trainer_log.jsonl
---@field standing table<string, any> values in the last log line: step, total_steps, epoch, ...
---@field clock moonring.RunClock
---@field status? moonring.RunStatus since the first refresh
---@field is_own? boolean whether this process is the run
---@field ranks moonring.RankTimes
---@field parts table<string, any> the contents of the other files, by section of the page
---@field texts table<string, string> the text of these files when they were read
local RunFiles = {}
RunFiles.__index = RunFiles

local MOST_CURVES = 400

-- The peak of memory so far, which an evaluation may raise.
local PEAK = "peak_memory_bytes"

-- Fields of a log line that are not curves, with their names on the page.
local STANDING = { current_steps = "step", total_steps = "total_steps", epoch = "epoch",
  percentage = "percentage", elapsed_time = "elapsed_time", remaining_time = "remaining_time",
  elapsed_seconds = "elapsed_seconds", tokens = "tokens" }

-- Files with one JSON value each.
local WHOLE = { data = "data_report.json", memory = "memory_report.json",
  results = "all_results.json", state = "run_state.json" }

-- A folder with one of these files belongs to a run.
local SIGNS = { "trainer_log.jsonl", "training_args.yaml", "generated_predictions.jsonl",
  "run.lock", "run_state.json" }

local function begin(self)
  self.curves, self.standing, self.count, self.clock = {}, {}, 0, run_clock.new()
end

--- Whether a folder with files of these names belongs to a run.
---@param names string[]
---@return boolean
function run_files.is_run(names)
  for _, name in ipairs(names) do
    for _, sign in ipairs(SIGNS) do
      if name == sign then return true end
    end
  end
  return false
end

--- Opens a run's folder without reading it. Errors: NOT_FOUND if no run has written there.
---@param folder string
---@return moonring.RunFiles
function run_files.open(folder)
  if not system.is_folder(folder) then errors.raise("NOT_FOUND", folder, ": no such folder") end
  if not run_files.is_run(system.list(folder)) then
    errors.raise("NOT_FOUND", folder, ": not the folder of a run: it has no trainer_log.jsonl")
  end
  local self = setmetatable({ folder = folder, name = system.absolute(folder):match "([^/]+)/*$"
    or folder, parts = {}, texts = {}, ranks = rank_times.new() }, RunFiles)
  self.log = growing_file.open(folder .. "/trainer_log.jsonl")
  self.rank_log = growing_file.open(folder .. "/ranks.jsonl")
  begin(self)
  return self
end

local function curve_of(self, name)
  if not self.curves[name] and self.count < MOST_CURVES then
    self.curves[name], self.count = curve.new(), self.count + 1
  end
  return self.curves[name]
end

local function take_line(self, line)
  local step = type(line) == "table" and line.current_steps
  if type(step) ~= "number" then
    errors.fail(self.log.path, ":", self.log.lines, ": not a line of a training log")
  end
  local alone = log_line.is_evaluation(line)
  for name, value in pairs(line) do
    if STANDING[name] then
      self.standing[STANDING[name]] = value
    elseif (type(value) == "number" or value == system.null)
      and (not alone or name:find "^eval_" or name == PEAK) then
      local into = curve_of(self, name)
      if into then into:add(step, value) end
    end
  end
  self.clock:add(line)
  if not alone then self.standing.finished = log_line.is_end(line) end
end

-- Updates the status; returns whether it has changed. It may without any file: a killed process
-- releases its lock.
local function refresh_status(self)
  local before = self.status
  local status = run_status.of(self.folder, self.parts.state, self.standing, self.is_own)
  self.status = status
  return not before or system.json_encode(before) ~= system.json_encode(status)
end

-- The text of a file that is always rewritten as a whole; also returns whether the text has
-- changed.
local function text_of(self, name)
  local path = self.folder .. "/" .. name
  local text = system.exists(path) and system.read(path) or nil
  if self.texts[name] == text then return text, false end
  self.texts[name] = text
  return text, true
end

local function lines_of(text, path)
  local values, number = {}, 0
  for line in (text or ""):gmatch "([^\n]*)\n" do
    number = number + 1
    values[number] = growing_file.decode(line, path, number)
  end
  return values
end

--- Reads new data. Errors: INVALID_ARGUMENT, with file and line, for a malformed file.
---@return boolean whether anything is new
function RunFiles:refresh()
  local changed = self.log:read(function(line) take_line(self, line) end,
    function() begin(self) end)
  if self.rank_log:read(function(line) self.ranks:add(line) end,
    function() self.ranks = rank_times.new() end) then
    changed = true
  end
  for part, name in pairs(WHOLE) do
    local text, is_new = text_of(self, name)
    if is_new then
      self.parts[part] = text and system.json_decode(text, self.folder .. "/" .. name)
      changed = true
    end
  end
  local layouts, layouts_new = text_of(self, "layouts.jsonl")
  if layouts_new then
    self.parts.layouts = lines_of(layouts, self.folder .. "/layouts.jsonl")
    changed = true
  end
  local settings, settings_new = text_of(self, "training_args.yaml")
  if settings_new then
    self.parts.settings = settings
      and run_settings.of(settings, self.folder .. "/training_args.yaml")
    changed = true
  end
  if run_samples.refresh(self) then changed = true end
  return refresh_status(self) or changed
end

--- The data of the run for a page.
---@return table
function RunFiles:data()
  local curves = {}
  for name, each in pairs(self.curves) do
    curves[name] = { x = each.x, y = each.y, points = each.points, least = each.least,
      most = each.most }
  end
  local clock = self.clock
  local facts = { name = self.name, folder = system.absolute(self.folder), curves = curves,
    axes = { tokens = { x = clock.tokens.x, y = clock.tokens.y },
      time = { x = clock.seconds.x, y = clock.seconds.y } },
    mean_tokens_per_second = clock:mean(), standing = self.standing, status = self.status,
    ranks = self.ranks:data() }
  for part, value in pairs(self.parts) do facts[part] = value end
  return facts
end

return run_files
