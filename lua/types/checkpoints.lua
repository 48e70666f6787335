---@meta moonring.checkpoints

--- The checkpoints of a run: output_dir/checkpoint-N, whole or not there; the oldest removed beyond a limit, the newest and the best kept in any case.
---@class moonring.checkpoints
local checkpoints = {}

--- Steps between two events: `value`, or that part of all steps where it is below 1.
---@param value number
---@param total_steps integer
---@return integer
function checkpoints.interval(value, total_steps) end

--- The steps whose checkpoint-STEP a folder has, whole or broken.
---@param dir string
---@return integer[] the newest first
function checkpoints.list(dir) end

--- Whether a step's checkpoint in a folder has what a run needs to go on from it. No byte is read.
---@param dir string
---@param step integer
---@return boolean
function checkpoints.resumable(dir, step) end

---@class moonring.CheckpointsOptions
---@field dir string
---@field mesh moonring.Mesh
---@field save fun(folder: string): string[] writes one into an empty folder, on every rank; returns the names of this rank's own files
---@field say fun(line: string) takes a line for the log, on every rank
---@field limit? integer how many are kept; all where absent
---@field metric? string of an evaluation, with or without "eval_"; none is best where absent
---@field greater? boolean is better; where absent, unless the metric ends in "loss"

--- The checkpoints of a run, none so far.
---@param given moonring.CheckpointsOptions
---@return moonring.Checkpoints
function checkpoints.new(given) end

---@class moonring.Checkpoints
---@field dir string
---@field mesh moonring.Mesh
---@field write fun(folder: string): string[]
---@field say fun(line: string)
---@field kept string[] folders, the oldest first
---@field stale integer evaluations since the best
---@field newest? integer step of the last that is whole; on rank 0
---@field pending? table the one that is under way: { step, draft, ends, publisher }
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

--- Goes on after a checkpoint.
---@param step integer its own
---@param state table what state() gave then
---@param from string the folder that the checkpoint is in
function Checkpoints:resume(step, state, from) end

--- What of this a checkpoint holds.
---@return table { best, stale, kept }
function Checkpoints:state() end

--- Begins to save checkpoint-STEP; what fails costs this checkpoint alone, and is said. Collective over all ranks.
---@param step integer
---@param ends? boolean the run ends after it
function Checkpoints:save(step, ends) end

--- Why the best checkpoint cannot be loaded. Collective over all ranks.
---@return string? why nil where it can
function Checkpoints:best_is_broken() end

--- Ends a save whose files have reached the disk, and removes what is beyond the limit; else nothing.
function Checkpoints:poll() end

--- The same, waiting for the disk. Collective over all ranks.
function Checkpoints:settle() end

return checkpoints
