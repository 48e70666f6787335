--- Whether all ranks share output_dir, and which ranks write the model at the end: rank 0; with
-- save_on_each_node also the first rank of each machine whose output_dir is a different folder from
-- rank 0's (no shared disk).
local errors = require "moonring.base.errors"
local machine = require "moonring.base.machine"
local system = require "moonring.native.system"

---@class moonring.each_node
local each_node = {}

-- How long a rank looks for a file of rank 0: a network file system may show it a little later.
local PATIENCE = 3

-- Whether this rank's output_dir is a different folder from rank 0's: rank 0 creates a file, and
-- this rank looks whether it sees that file. False if rank 0 cannot create it. If the run is killed
-- before it removes the file, the next run does (output_folder.lua).
local function is_apart(dir, mesh)
  local name = ""
  if mesh:rank() == 0 then
    local own = ("run.mark.%d.tmp"):format(system.clock() * 1e9)
    if pcall(system.write, dir .. "/" .. own, "") then name = own end
  end
  name = mesh:gather(name)[1]
  if name == "" then return false end
  local mark, began = dir .. "/" .. name, system.clock()
  local seen = system.exists(mark)
  while not seen and system.clock() - began < PATIENCE do seen = system.exists(mark) end
  mesh:barrier()
  if mesh:rank() == 0 then system.remove(mark) end
  return not seen
end

local SAVES = "save_on_each_node: machines have an output_dir of their own each (%s is one), and "
  .. "a checkpoint is of files of all ranks in one folder: expected save_strategy: no, or a disk "
  .. "that all share"
local APART = "output_dir: %s of rank %d is another folder than that of rank 0, and a checkpoint "
  .. "is of files of all ranks in one folder: expected a disk that all machines share, or "
  .. "save_strategy: no"

--- Whether this rank writes the model. Call it after output_dir is locked. Collective over all
--- ranks. Errors: INVALID_ARGUMENT if machines have separate folders and checkpoints are enabled,
--- which need one shared folder.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@return boolean
---@return string? apart why no checkpoint can be saved; nil if all ranks share the folder
function each_node.writes(c, mesh)
  local first = mesh:rank() == 0
  if mesh:size() == 1 then return first end
  local apart, why = is_apart(c.output_dir, mesh), nil
  for rank, is in ipairs(mesh:gather(apart and "apart" or "")) do
    if is ~= "" and not why then why = APART:format(c.output_dir, rank - 1) end
  end
  if why and c.save_strategy ~= "no" then
    errors.fail(c.save_on_each_node and SAVES:format(c.output_dir) or why)
  end
  return first or (c.save_on_each_node and apart and machine.local_rank() == 0), why
end

return each_node
