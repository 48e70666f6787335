--- Locks output_dir, so that only one run at a time writes into it. The folder is locked after all
-- checks of a run have passed, so a run that is refused changes nothing there.
local checkpoint_folders = require "moonring.base.checkpoint_folders"
local errors = require "moonring.base.errors"
local on_first_rank = require "moonring.base.first_rank"
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"
local training_args = require "moonring.config.training_args"

---@class moonring.output_folder
local output_folder = {}

-- Whether a file name is a leftover of a killed run: a lock file, or a temporary file on a file
-- system that does not support unnamed files (base/files/output_file.h).
local function is_left_over(name)
  return name == "run.lock" or name:find "%.%a+%.%d+%.tmp$" ~= nil
end

--- Whether a folder is empty, except for leftovers of a killed run.
---@param dir string
---@return boolean
function output_folder.is_empty(dir)
  for _, name in ipairs(system.list(dir)) do
    if not is_left_over(name) then return false end
  end
  return true
end

-- Files that a run writes before its first checkpoint.
local LOGS = { ["data_report.json"] = true, ["layouts.jsonl"] = true, ["ranks.jsonl"] = true,
  ["report.html"] = true, ["run.lock"] = true, ["run_state.json"] = true,
  ["trainer_log.jsonl"] = true, ["training_args.yaml"] = true, runs = true, completions = true,
  ["memory_report.json"] = true }

--- Whether a folder contains only .log files and files of a run that ended before its first
--- checkpoint.
---@param dir string
---@return boolean
function output_folder.has_logs_alone(dir)
  for _, name in ipairs(system.list(dir)) do
    local is_log = LOGS[name] or is_left_over(name) or name:find "%.log$" or name:find "%.out$"
      or name:find "^checkpoint%-%d+%.partial$"
    if not is_log then return false end
  end
  return true
end

-- Runs a check on rank 0. If it fails, all ranks raise its error as one of the key.
local function by_first(mesh, check)
  on_first_rank(mesh, function()
    local ok, why = pcall(check)
    if not ok then errors.fail("output_dir: ", errors.words(why)) end
  end)
end

-- Describes a folder as text: the run that owns it, and its checkpoints. Two texts show whether the
-- folder changed while a run opened.
local function standing(dir)
  local steps = checkpoint_folders.list(dir)
  return (training_args.of_run(dir) or "nobody") .. " " .. table.concat(steps, ",")
end

--- Checks that no other run writes into output_dir, and changes nothing there. Collective over all
--- ranks. Errors: INVALID_ARGUMENT, with process and machine, if another run has locked it.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@return string? seen the state of the folder, for `take`; on rank 0
function output_folder.look(c, mesh)
  by_first(mesh, function() trainer.check_folder_lock(c.output_dir) end)
  return mesh:rank() == 0 and standing(c.output_dir) or nil
end

local CHANGED = " has changed since this run began to open: another run has written into it; "
  .. "start again"

--- Locks output_dir for this run until the lock is closed or the process ends, and creates the
--- folder if it is missing. A folder that was created here is removed at the end if it is still
--- empty. Collective over all ranks. Errors: INVALID_ARGUMENT, with process and machine, if another
--- run has locked the folder; INVALID_ARGUMENT if the folder has changed since `look`.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@param seen? string the result of `look`, on rank 0
---@return moonring.FolderLock? lock on rank 0; nil if the file system has no locks
---@return string? why it could not be locked
function output_folder.take(c, mesh, seen)
  local dir, lock, why = c.output_dir, nil, nil
  by_first(mesh, function()
    lock, why = trainer.lock_folder(dir)
    if not lock then system.make_folder(dir) end
    if standing(dir) ~= seen then errors.fail(dir, CHANGED) end
  end)
  if mesh:rank() ~= 0 then system.make_folder(dir) end -- another machine may have its own folder
  for _, name in ipairs(lock and system.list(dir) or {}) do
    if name ~= "run.lock" and is_left_over(name) then system.remove(dir .. "/" .. name) end
  end
  return lock, why and ("output_dir: %s; see to it that no other run writes into it"):format(why)
end

local GONE = "output_dir: %s was removed or renamed%s during the run. The run created it again "
  .. "with its log; files written earlier are not in it"
local TAKEN = "; this run's own folder was removed or renamed%s, so the run stops"

-- Locks the folder again if it was removed or renamed. Returns a line for the log. On rank 0.
local function take_again(run)
  local dir, lock = run.config.output_dir, run.lock
  if not lock or lock:stands() then return nil end
  local place = lock:place():match "^(.*)/[^/]*$"
  local moved = place and (" (now %s)"):format(place) or ""
  local keeps_files = not output_folder.is_empty(dir)
  local ok, again = pcall(trainer.lock_folder, dir)
  if not ok then errors.fail(errors.words(again), TAKEN:format(moved)) end
  if not again then return nil end
  lock:close()
  run.lock, run.is_signed = again, nil
  if not place and keeps_files then return nil end -- only run.lock was removed
  return GONE:format(dir, moved)
end

--- Creates and locks output_dir again if it was removed or renamed during the run. Collective over
--- all ranks. Errors: INVALID_ARGUMENT if another run has locked a folder of that name.
---@param run moonring.Run
function output_folder.hold(run)
  local line
  by_first(run.mesh, function() line = take_again(run) end)
  if line then run.log:say(line) end
end

return output_folder
