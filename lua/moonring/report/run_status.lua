--- The status of a run in one word, with the reason and how it can be resumed. The source is
-- run_state.json, which the run writes, and the lock that a running run holds on its folder. Older
-- runs have no run_state.json: then their log is the source.
local checkpoint_folders = require "moonring.base.checkpoint_folders"
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"

---@class moonring.run_status
local run_status = {}

---@class moonring.RunStatus
---@field word "running" | "finished" | "stopped" | "failed" | "killed" | "ended"
---@field reason string a sentence
---@field checkpoint? string "checkpoint-120": the newest from which the run can resume
---@field resume? string the command that resumes it

-- The states of run_state.json. A killed run leaves "running". "ended" is for older runs only.
local STATES = { running = true, finished = true, stopped = true, failed = true }

local function is_locked(folder) return not pcall(trainer.check_folder_lock, folder) end

-- The newest checkpoint from which a run can resume; nil if there is none.
local function newest_checkpoint(folder)
  for _, step in ipairs(checkpoint_folders.list(folder)) do
    if checkpoint_folders.resumable(folder, step) then return ("checkpoint-%d"):format(step) end
  end
end

local KEY = "resume_from_checkpoint"

-- The command that resumes a run: one of those that the run itself proposes, or its own command
-- with the key added.
local function resume_command(folder, checkpoint, state)
  for _, command in ipairs(type(state.next) == "table" and state.next or {}) do
    if tostring(command):find(KEY, 1, true) then return command end
  end
  if type(state.command) ~= "string" then
    return ("moonring train CONFIG.yaml %s=%s/%s"):format(KEY, folder, checkpoint)
  end
  local without = state.command:gsub("%s+%-?%-?" .. KEY .. "=%S*", ""):gsub("%s+%-%-" .. KEY
    .. "%s+[^%s-]%S*", "")
  return without .. " " .. KEY .. "=true"
end

-- Adds the checkpoint from which an unfinished run can resume.
local function with_checkpoint(status, folder, state)
  if status.word == "running" or status.word == "finished" or state.resumable == false then
    return status
  end
  local named = type(state.checkpoint) == "string" and state.checkpoint or ""
  local step = tonumber(named:match "^checkpoint%-(%d+)$")
  status.checkpoint = step and checkpoint_folders.resumable(folder, step) and named
    or newest_checkpoint(folder)
  if status.checkpoint then
    status.resume = resume_command(folder, status.checkpoint, state)
  end
  return status
end

local KILLED = "the process was killed %s: kill -9, the kernel's out-of-memory killer, or loss of "
  .. "power"

local function after(step)
  return step and step > 0 and ("after step %d"):format(step) or "before the first step"
end

local function of_state(folder, state, standing, is_own)
  local path = folder .. "/run_state.json"
  if type(state) ~= "table" or not STATES[state.state] then
    errors.fail(path, ": state is ", tostring(type(state) == "table" and state.state or state),
      ", expected running, finished, stopped or failed")
  end
  if state.state == "running" and not is_own and not is_locked(folder) then
    local step = math.max(tonumber(state.step) or 0, standing.step or 0)
    return { word = "killed", reason = KILLED:format(after(step)) }
  end
  return { word = state.state, reason = tostring(state.reason or "") }
end

local UNSAID = "the log ends %s, and no process holds run.lock: stopped, failed or killed; the "
  .. "cause is unknown without run_state.json, which older runs do not have"

-- The status of a run without run_state.json.
local function of_log(folder, standing, is_own)
  local step, total = standing.step, standing.total_steps
  if standing.finished then
    return { word = "finished", reason = ("the training ended after step %d of %d"):format(step,
      total or step) }
  elseif is_own or is_locked(folder) then
    return { word = "running", reason = "a process holds run.lock in its folder" }
  elseif not step and system.exists(folder .. "/generated_predictions.jsonl") then
    return { word = "finished", reason = "it wrote predictions, and has no log of a training" }
  end
  return { word = "ended", reason = UNSAID:format(after(step)) }
end

--- The status of the run in a folder. Errors: INVALID_ARGUMENT if run_state.json has no known
--- state.
---@param folder string
---@param state? table the contents of run_state.json, if it exists
---@param standing table<string, any> step, total_steps and finished of the log, as in RunFiles
---@param is_own? boolean whether this process is the run, which may be unable to lock its folder
---@return moonring.RunStatus
function run_status.of(folder, state, standing, is_own)
  local status = state == nil and of_log(folder, standing, is_own)
    or of_state(folder, state, standing, is_own)
  return with_checkpoint(status, folder, type(state) == "table" and state or {})
end

return run_status
