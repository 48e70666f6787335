--- The short description of a run in the list of `moonring watch`. Only run_state.json, the end of
-- the log and the stage are read.
local log_end = require "moonring.report.log_end"
local run_status = require "moonring.report.run_status"
local system = require "moonring.native.system"
local watch_native = require "moonring.native.watch"

---@class moonring.run_entry
local run_entry = {}

---@class moonring.ListedRun
---@field name string its path relative to the folder that was given; unique
---@field folder string
---@field state? string running, finished, stopped, failed, killed, or ended for an older run
---@field step? integer
---@field total_steps? integer
---@field began? string "2026-11-28T21:00:00Z"
---@field stage? string
---@field error? string why the run's files could not be read

local MARKED = { "run_state.json", "trainer_log.jsonl", "training_args.yaml", "run.lock" }

--- A text that differs if a file of the run has changed.
---@param folder string
---@return string
function run_entry.mark(folder)
  local parts = {}
  for i, name in ipairs(MARKED) do
    local state = watch_native.stat(folder .. "/" .. name)
    parts[i] = state and ("%d %.6f"):format(state.size, state.modified) or "-"
  end
  return table.concat(parts, " ")
end

-- When a run without run_state.json began: when it wrote its configuration.
local function began_by_file(folder)
  local state = watch_native.stat(folder .. "/training_args.yaml")
  return state and os.date("!%Y-%m-%dT%H:%M:%SZ", math.floor(state.modified)) or nil
end

-- The stage in a run's configuration. Parsing all of it would take longer than all else here.
local function stage_of(folder)
  local path = folder .. "/training_args.yaml"
  local text = system.exists(path) and system.read_part(path, 0, 2 ^ 16) or ""
  return ("\n" .. text):match '\nstage: "?([%w_]+)'
end

--- Fills in the description of a run. Errors: INVALID_ARGUMENT for a malformed file.
---@param run moonring.ListedRun with folder and name
function run_entry.read(run)
  local path = run.folder .. "/run_state.json"
  local state = system.exists(path) and system.json_decode(system.read(path), path) or nil
  local standing = log_end.read(run.folder .. "/trainer_log.jsonl")
  run.state = run_status.of(run.folder, state, standing).word
  state = state or {}
  run.step, run.total_steps = standing.step or state.step, standing.total_steps
    or state.total_steps
  run.began = state.began or began_by_file(run.folder)
  run.stage = state.stage or stage_of(run.folder)
end

return run_entry
