--- output_dir: one run at a time writes into it.
local errors = require "moonring.errors"
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"

---@class moonring.output_folder
local output_folder = {}

-- What a killed run may have left besides its files: its lock, and on a file system whose files all
-- have names a draft of one (comm/files/output_file.h).
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

--- Takes output_dir for this run until the object is closed or the process ends. Collective over
--- all ranks. Errors: INVALID_ARGUMENT where another run has it, with that run's process and
--- machine.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@return moonring.FolderLock? lock on rank 0, but where the file system has no locks
---@return string? why it could not be locked
function output_folder.take(c, mesh)
  local ok, lock, why = true, nil, nil
  if mesh:rank() == 0 then ok, lock, why = pcall(trainer.lock_folder, c.output_dir) end
  local refused = mesh:gather(ok and "" or errors.words(lock))[1]
  if refused ~= "" then errors.fail("output_dir: ", refused) end
  for _, name in ipairs(lock and system.list(c.output_dir) or {}) do
    if name ~= "run.lock" and is_left_over(name) then system.remove(c.output_dir .. "/" .. name) end
  end
  return lock, why and ("output_dir: %s; see to it that no other run writes into it"):format(why)
end

return output_folder
