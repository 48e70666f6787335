---@meta moonring.training_args

--- A run's whole configuration as a file.
---@class moonring.training_args
local args = {}

--- The text of training_args.yaml: every key that acts, with its value.
---@param c moonring.Configuration
---@param ranks integer that the run has
---@return string
function args.text(c, ranks) end

return args
