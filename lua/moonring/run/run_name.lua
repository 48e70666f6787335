--- Identifies the run that owns an output_dir: training_args.yaml contains the run's name. So a run
--- does not mistake checkpoints of an unrelated run in the same folder for its own.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"
local training_args = require "moonring.config.training_args"

---@class moonring.run_name
local run_name = {}

--- Writes training_args.yaml with the run's name, on rank 0. Errors: INVALID_ARGUMENT if output_dir
--- is not writable.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@param name? string the result of `choose`
---@param before? table<string, integer> by earlier run: the last step whose checkpoint is shared
function run_name.sign(c, mesh, name, before)
  if mesh:rank() ~= 0 then return end
  local text = training_args.text(c, mesh:size(), name, before)
  local ok, why = pcall(system.write, c.output_dir .. "/training_args.yaml", text)
  if not ok then errors.fail("output_dir: ", errors.words(why)) end
end

--- The name of this run: a new one, or the name of the run that it resumes. If the run resumes from
--- a checkpoint that a configuration names, or restarts the data, the later steps of the resumed
--- run are not its own, so it gets a new name. Writes nothing.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@param resumed? moonring.Resumed
---@return string? name on rank 0
---@return table<string, integer>? before for sign
function run_name.choose(c, mesh, resumed)
  if mesh:rank() ~= 0 then return nil end
  local here, before = training_args.of_run(c.output_dir)
  local new = ("%x-%x"):format(os.time(), system.clock() * 1e9 % 2 ^ 32)
  local is_own = resumed and resumed.newest and resumed.skips
  if not here then return is_own and resumed.run or new end
  if not resumed or not (resumed.run == here or before[resumed.run]) then return new end
  if is_own then return here, before end
  local shared = {}
  for run, step in pairs(before) do shared[run] = math.min(step, resumed.step) end
  shared[resumed.run] = resumed.step
  return new, shared
end

return run_name
