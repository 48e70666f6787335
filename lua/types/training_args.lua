---@meta moonring.training_args

--- A run's whole configuration as a file.
---@class moonring.training_args
local args = {}

--- The text of training_args.yaml: every key that acts, with its value.
---@param c moonring.Configuration
---@param ranks integer that the run has
---@param run string its name, for of_run
---@param before? table<string, integer> up to which step it shares checkpoints with earlier runs, by their names
---@return string
function args.text(c, ranks, run, before) end

--- Which run the training_args.yaml of a folder is of, and up to which step it shares checkpoints with earlier ones.
---@param folder string
---@return string?, table<string, integer>?
function args.of_run(folder) end

return args
