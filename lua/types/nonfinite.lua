---@meta moonring.nonfinite

--- Where a loss or a gradient that is not finite came from, in words.
---@class moonring.nonfinite
local nonfinite = {}

--- Neither NaN nor infinite.
---@param x number
---@return boolean
function nonfinite.is_finite(x) end

--- Of a step's loss: step, examples and the first module whose results are none. Collective over all ranks.
---@param runtime moonring.Runtime
---@param step moonring.Step
---@param noise? table { seed, step, neftune_alpha }
---@param loss number
---@param suspects integer[] this rank's examples, of the micro-batches whose loss was none
---@param k integer the step's number
---@return string
function nonfinite.of_loss(runtime, step, noise, loss, suspects, k) end

--- Of a gradient.
---@param step moonring.Step
---@param why string what States:norm raised
---@param k integer the step's number
---@return string
function nonfinite.of_gradient(step, why, k) end

return nonfinite
