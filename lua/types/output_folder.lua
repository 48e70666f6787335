---@meta moonring.output_folder

--- output_dir: one run at a time writes into it.
---@class moonring.output_folder
local folder = {}

--- Whether nothing is in a folder but what a killed run may have left besides its files.
---@param dir string
---@return boolean
function folder.is_empty(dir) end

--- Takes output_dir for this run until the object is closed or the process ends. Collective over
--- all ranks.
--- Errors: INVALID_ARGUMENT where another run has it, with that run's process and machine.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@return moonring.FolderLock? lock on rank 0, but where the file system has no locks
---@return string? why it could not be locked
function folder.take(c, mesh) end

return folder
