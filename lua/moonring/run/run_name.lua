--- Which run an output_dir is of. training_args.yaml is signed with the run's name, so that the
-- checkpoints of an earlier, unrelated run in the same folder are not taken for its own.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"
local training_args = require "moonring.config.training_args"

---@class moonring.run_name
local run_name = {}

--- Writes training_args.yaml, by rank 0. Errors: what output_dir says.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@param name? string what `choose` gave
---@param before? table<string, integer> up to which step earlier runs' checkpoints are its own
function run_name.sign(c, mesh, name, before)
  if mesh:rank() ~= 0 then return end
  local text = training_args.text(c, mesh:size(), name, before)
  local ok, why = pcall(system.write, c.output_dir .. "/training_args.yaml", text)
  if not ok then errors.fail("output_dir: ", errors.words(why)) end
end

--- The name of a run that begins, or of the one that `resumed` is of. A run that was told where to
--- go on, or goes on at the data's beginning, is another run from there, as it leaves behind what
--- came later. Nothing is written.
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
