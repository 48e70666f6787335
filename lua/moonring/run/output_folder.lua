--- output_dir: one run at a time writes into it, and a start that is refused changes nothing there.
-- So it is only looked at until all that can refuse the run has been checked, and taken then.
local checkpoint_folders = require "moonring.run.checkpoint.folders"
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"
local training_args = require "moonring.config.training_args"

---@class moonring.output_folder
local output_folder = {}

-- What a killed run may have left besides its files: its lock, and on a file system whose files all
-- have names a draft of one (base/files/output_file.h).
local function is_left_over(name)
  return name == "run.lock" or name:find "%.%a+%.%d+%.tmp$" ~= nil
end

--- Whether nothing is in a folder but what a killed run may have left besides its files.
---@param dir string
---@return boolean
function output_folder.is_empty(dir)
  for _, name in ipairs(system.list(dir)) do
    if not is_left_over(name) then return false end
  end
  return true
end

-- What a run writes before its first checkpoint, and logs that a shell writes.
local LOGS = { ["data_report.json"] = true, ["layouts.jsonl"] = true, ["ranks.jsonl"] = true,
  ["report.html"] = true, ["run.lock"] = true, ["trainer_log.jsonl"] = true,
  ["training_args.yaml"] = true, runs = true, completions = true, ["memory_report.json"] = true }

--- Whether a folder holds nothing but what a run leaves that ended before its first checkpoint.
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

-- Calls rank 0's check; what it refuses, all ranks refuse.
local function by_first(mesh, check)
  local words = ""
  if mesh:rank() == 0 then
    local ok, why = pcall(check)
    words = ok and "" or errors.words(why)
  end
  local refused = mesh:gather(words)[1]
  if refused ~= "" then errors.fail("output_dir: ", refused) end
end

-- What a run that opens depends on: whose folder it is, and which checkpoints are in it.
local function standing(dir)
  local steps = checkpoint_folders.list(dir)
  return (training_args.of_run(dir) or "nobody") .. " " .. table.concat(steps, ",")
end

--- Looks at output_dir, and changes nothing. Collective over all ranks. Errors: INVALID_ARGUMENT
--- where another run writes into it, with that run's process and machine.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@return string? seen what is in it, for `take`; on rank 0
function output_folder.look(c, mesh)
  by_first(mesh, function() trainer.check_folder_lock(c.output_dir) end)
  return mesh:rank() == 0 and standing(c.output_dir) or nil
end

local CHANGED = " has changed since this run began to open: another run has written into it; "
  .. "start again"

--- Takes output_dir for this run until the object is closed or the process ends, and makes the
--- folder where it is missing; what was made goes again at the end where nothing has come into it.
--- Collective over all ranks. Errors: INVALID_ARGUMENT where another run has it, with that run's
--- process and machine, and where it is no longer as `look` saw it.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@param seen? string what `look` gave, on rank 0
---@return moonring.FolderLock? lock on rank 0, but where the file system has no locks
---@return string? why it could not be locked
function output_folder.take(c, mesh, seen)
  local dir, lock, why = c.output_dir, nil, nil
  by_first(mesh, function()
    lock, why = trainer.lock_folder(dir)
    if not lock then system.make_folder(dir) end
    if standing(dir) ~= seen then errors.fail(dir, CHANGED) end
  end)
  if mesh:rank() ~= 0 then system.make_folder(dir) end -- of another machine, its own
  for _, name in ipairs(lock and system.list(dir) or {}) do
    if name ~= "run.lock" and is_left_over(name) then system.remove(dir .. "/" .. name) end
  end
  return lock, why and ("output_dir: %s; see to it that no other run writes into it"):format(why)
end

local GONE = "output_dir: %s was removed or renamed%s during the run. The run created it again "
  .. "with its log; files written earlier are not in it"
local TAKEN = "; this run's own folder was removed or renamed%s, so the run stops"

-- On rank 0: the folder and the lock again. A line where they were gone.
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
  if not place and keeps_files then return nil end -- run.lock alone was removed
  return GONE:format(dir, moved)
end

--- Takes output_dir again where it was removed or renamed under the run. Collective over all ranks.
--- Errors: INVALID_ARGUMENT where another run has a folder of that name by now.
---@param run moonring.Run
function output_folder.hold(run)
  local line
  by_first(run.mesh, function() line = take_again(run) end)
  if line then run.log:say(line) end
end

return output_folder
