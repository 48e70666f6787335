---@meta moonring.checkpoints

--- The model-only checkpoints of a run: output_dir/checkpoint-N, the oldest removed beyond a limit, the best kept in any case.
---@class moonring.checkpoints
local checkpoints = {}

--- Steps between two events: `value`, or that part of all steps where it is below 1.
---@param value number
---@param total_steps integer
---@return integer
function checkpoints.interval(value, total_steps) end

---@class moonring.CheckpointsOptions
---@field dir string
---@field mesh moonring.Mesh
---@field save fun(folder: string) writes the model, from rank 0; every rank calls it
---@field limit? integer how many are kept; all where absent
---@field metric? string of an evaluation, with or without "eval_"; none is best where absent
---@field greater? boolean is better; where absent, unless the metric ends in "loss"

--- The checkpoints of a run, none so far.
---@param options moonring.CheckpointsOptions
---@return moonring.Checkpoints
function checkpoints.new(options) end

---@class moonring.Checkpoints
---@field dir string
---@field mesh moonring.Mesh
---@field write fun(folder: string)
---@field kept string[] folders, the oldest first
---@field stale integer evaluations since the best
---@field limit? integer
---@field metric? string
---@field greater? boolean
---@field best? table { metric, step, folder }
local Checkpoints = {}

--- Takes an evaluation's numbers at a step: whether they are the best so far.
---@param evaluation table<string, number> by their "eval_" names
---@param step integer
---@return boolean
function Checkpoints:judge(evaluation, step) end

--- Writes checkpoint-STEP, then removes what is beyond the limit. Collective over all ranks.
---@param step integer
function Checkpoints:save(step) end

return checkpoints
