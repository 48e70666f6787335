--- Which ranks write the model at the end: rank 0; with save_on_each_node also the first one of
-- each machine whose output_dir is another folder than rank 0's. Those are told apart by the run's
-- name in training_args.yaml.
local errors = require "moonring.errors"
local machine = require "moonring.plan.machine"
local training_args = require "moonring.config.training_args"

---@class moonring.each_node
local each_node = {}

--- Whether this rank writes the model, once training_args.yaml is signed. Collective over all
--- ranks. Errors: INVALID_ARGUMENT where machines have folders of their own and checkpoints are
--- asked for, which want one folder.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@param name? string the run's, on rank 0
---@return boolean
function each_node.writes(c, mesh, name)
  local first = mesh:rank() == 0
  if not c.save_on_each_node then return first end
  local apart = mesh:gather(name or "")[1] ~= training_args.of_run(c.output_dir)
  if mesh:max(apart and 1 or 0) == 1 and c.save_strategy ~= "no" then
    errors.fail("save_on_each_node: machines have an output_dir of their own each (", c.output_dir,
      " is one), and a checkpoint is of files of all ranks in one folder: wanted save_strategy: ",
      "no, or a disk that all share")
  end
  return first or (apart and machine.local_rank() == 0)
end

return each_node
