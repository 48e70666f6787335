--- What the files of a run tell, for a page: read as they grow, so that a run's own report and a
-- page beside a run that goes on read each line once. Files are read and nothing else.
local curve = require "moonring.report.curve"
local errors = require "moonring.base.errors"
local growing_file = require "moonring.report.growing_file"
local rank_times = require "moonring.report.rank_times"
local run_samples = require "moonring.report.run_samples"
local run_settings = require "moonring.report.run_settings"
local system = require "moonring.native.system"

---@class moonring.run_files
local run_files = {}

---@class moonring.RunFiles
---@field folder string
---@field name string what a page calls it
---@field curves table<string, moonring.Curve> by metric, of trainer_log.jsonl
---@field standing table<string, any> what its last line says: step, total_steps, epoch, ...
---@field ranks moonring.RankTimes
---@field parts table<string, any> what the other files hold, by what they are for
---@field texts table<string, string> of these files, as they were read
local RunFiles = {}
RunFiles.__index = RunFiles

local MOST_CURVES = 400

-- Of a line what is no curve, and what the page calls it.
local STANDING = { current_steps = "step", total_steps = "total_steps", epoch = "epoch",
  percentage = "percentage", elapsed_time = "elapsed_time", remaining_time = "remaining_time",
  tokens = "tokens" }

-- Files of one value each.
local WHOLE = { data = "data_report.json", memory = "memory_report.json",
  results = "all_results.json" }

-- By one of these files a folder is a run's.
local SIGNS = { "trainer_log.jsonl", "training_args.yaml", "generated_predictions.jsonl",
  "run.lock" }

local function begin(self) self.curves, self.standing, self.count = {}, {}, 0 end

--- A run's folder, of which nothing was read yet. Errors: NOT_FOUND where it is none.
---@param folder string
---@return moonring.RunFiles
function run_files.open(folder)
  local is_run = false
  for _, name in ipairs(SIGNS) do is_run = is_run or system.exists(folder .. "/" .. name) end
  if not system.is_folder(folder) then errors.raise("NOT_FOUND", folder, ": no such folder") end
  if not is_run then
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

-- An evaluation's line: its tokens a second are those of no step.
local function is_evaluation(line)
  if line.lr ~= nil then return false end
  for name in pairs(line) do
    if name:find "^eval_" then return true end
  end
  return false
end

local function take_line(self, line)
  local step = type(line) == "table" and line.current_steps
  if type(step) ~= "number" then
    errors.fail(self.log.path, ":", self.log.lines, ": not a line of a training log")
  end
  local alone = is_evaluation(line)
  for name, value in pairs(line) do
    if STANDING[name] then
      self.standing[STANDING[name]] = value
    elseif (type(value) == "number" or value == system.null)
      and (not alone or name:find "^eval_") then
      local into = curve_of(self, name)
      if into then into:add(step, value) end
    end
  end
  self.standing.finished = line.tokens == nil -- the line after the last step has none
end

-- The text of a file that others write whole; whether it is another one than before.
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

--- Reads what is new. Errors: INVALID_ARGUMENT, with file and line, for a file that is none of a
--- run's.
---@return boolean whether anything is
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
  return changed
end

--- What a page is told of the run.
---@return table
function RunFiles:data()
  local curves = {}
  for name, each in pairs(self.curves) do
    curves[name] = { x = each.x, y = each.y, points = each.points }
  end
  local told = { name = self.name, folder = system.absolute(self.folder), curves = curves,
    standing = self.standing, ranks = self.ranks:data() }
  for part, value in pairs(self.parts) do told[part] = value end
  return told
end

return run_files
