--- Determines which ranks write the model at the end: rank 0; with save_on_each_node also the first
-- rank of each machine whose output_dir is a different folder from rank 0's (no shared disk).
local errors = require "moonring.base.errors"
local machine = require "moonring.base.machine"
local system = require "moonring.native.system"

---@class moonring.each_node
local each_node = {}

-- Whether this rank's output_dir is a different folder from rank 0's: rank 0 creates a file, and
-- this rank looks whether it sees that file. If the run is killed before it removes the file, the
-- next run does (output_folder.lua).
local function is_apart(dir, mesh)
  local first = mesh:rank() == 0
  local name = ("run.mark.%d.tmp"):format(first and system.clock() * 1e9 or 0)
  local mark = dir .. "/" .. mesh:gather(name)[1]
  if first then system.write(mark, "") end
  mesh:barrier()
  local apart = not system.exists(mark)
  mesh:barrier()
  if first then system.remove(mark) end
  return apart
end

--- Whether this rank writes the model. Call it after output_dir is locked. Collective over all
--- ranks. Errors: INVALID_ARGUMENT if machines have separate folders and checkpoints are enabled,
--- which need one shared folder.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@return boolean
function each_node.writes(c, mesh)
  local first = mesh:rank() == 0
  if not c.save_on_each_node then return first end
  local apart = is_apart(c.output_dir, mesh)
  if mesh:max(apart and 1 or 0) == 1 and c.save_strategy ~= "no" then
    errors.fail("save_on_each_node: machines have an output_dir of their own each (", c.output_dir,
      " is one), and a checkpoint is of files of all ranks in one folder: expected save_strategy: ",
      "no, or a disk that all share")
  end
  return first or (apart and machine.local_rank() == 0)
end

return each_node
