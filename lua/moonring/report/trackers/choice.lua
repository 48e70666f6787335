--- The trackers that the key report_to can name: one row each.
local adapters = require "moonring.report.trackers.adapters"
local config = require "moonring.config"
local errors = require "moonring.base.errors"
local lines = require "moonring.report.trackers.lines"
local sandbox = require "moonring.sandbox"
local system = require "moonring.native.system"
local tensorboard = require "moonring.report.trackers.tensorboard"

---@class moonring.tracker_choice
local choice = {}

local function always() return true end

---@class moonring.TrackerRow
---@field name string
---@field open fun(c: moonring.Configuration, folder: string, first_step: integer): table
---@field in_all? fun(c: moonring.Configuration): boolean whether it belongs to "all"
---@field starts? true it is a program, which --sandbox does not start
---@field check? fun(c: moonring.Configuration) refuses its keys

-- The trackers, in the order in which they are opened.
---@type moonring.TrackerRow[]
local ROWS = {
  { name = "tensorboard", open = tensorboard.open, in_all = always },
  { name = "jsonl", open = lines.open_file, in_all = always },
  { name = "command", open = lines.open_program, starts = true, check = lines.command,
    in_all = function(c) return c.report_command ~= nil end },
  { name = "wandb", open = adapters.opens "wandb", starts = true },
  { name = "mlflow", open = adapters.opens "mlflow", starts = true },
  { name = "swanlab", open = adapters.opens "swanlab", starts = true },
}

-- Trackers that Transformers knows, and that are not supported here.
local ELSEWHERE = {}
for _, name in ipairs { "azure_ml", "clearml", "codecarbon", "comet_ml", "dagshub", "dvclive",
  "flyte", "neptune", "trackio" } do
  ELSEWHERE[name] = true
end

-- YAML 1.1 reads a plain `no` as false.
local NOBODY = { none = true, no = true, off = true, ["false"] = true, null = true, [""] = true }

-- The set of names that a configuration asks for, and the list of those that are not supported.
local function wanted(c)
  local asked, set, elsewhere = c.report_to, {}, {}
  for _, name in ipairs(type(asked) == "table" and asked or { asked }) do
    local lower = name:lower()
    if lower == "all" then
      for _, row in ipairs(ROWS) do
        if row.in_all and row.in_all(c) then set[row.name] = true end
      end
    elseif ELSEWHERE[lower] then
      elsewhere[#elsewhere + 1] = name
    elseif not NOBODY[lower] then
      set[lower] = true
    end
  end
  return set, elsewhere
end

-- Adds a note about trackers that are not supported.
local function note_elsewhere(c, names)
  if #names == 0 then return end
  c.notes[#c.notes + 1] = ("report_to: nothing is sent to %s, since no such tracker is built in: "
    .. "trainer_log.jsonl has every line; report_to: wandb, mlflow, swanlab or tensorboard sends "
    .. "them elsewhere, and report_to: command to a program of yours (report_command)")
    :format(table.concat(names, ", "))
end

-- Refuses names of trackers that nobody knows.
local function check_names(set)
  local known, near, is_known = { "none", "all" }, { "none", "all" }, {}
  for _, row in ipairs(ROWS) do
    known[#known + 1], near[#near + 1], is_known[row.name] = row.name, row.name, true
  end
  for name in pairs(ELSEWHERE) do near[#near + 1] = name end
  table.sort(near)
  for name in pairs(set) do
    if not is_known[name] then
      config.fail("report_to: expected ", table.concat(known, ", "), " or a list of them, got '",
        name, "'", system.did_you_mean(name, near))
    end
  end
end

--- The trackers that a checked configuration asks for.
---@param c moonring.Configuration
---@return moonring.TrackerRow[]
function choice.of(c)
  local set, rows = wanted(c), {}
  for _, row in ipairs(ROWS) do
    if set[row.name] then rows[#rows + 1] = row end
  end
  return rows
end

--- Refuses unknown trackers, and programs under --sandbox. Adds a note for trackers of Transformers
--- that are not supported.
---@param c moonring.Configuration
function choice.check(c)
  local set, elsewhere = wanted(c)
  note_elsewhere(c, elsewhere)
  check_names(set)
  for _, row in ipairs(choice.of(c)) do
    if row.check then row.check(c) end
    if row.starts and sandbox.is_confined() then
      errors.raise("PERMISSION_DENIED", "report_to: ", row.name,
        ": --sandbox: a report starts no program")
    end
  end
end

return choice
