---@meta moonring.checks

--- What of a training configuration can be known to be wrong before anything is loaded.
---@class moonring.checks
local checks = {}

--- Refuses, with one line, what cannot be trained, and makes output_dir.
---@param c moonring.Configuration
function checks.train(c) end

--- Refuses `val_size` and `eval_dataset` beside one another; part of `train`.
---@param c moonring.Configuration
function checks.datasets(c) end

return checks
