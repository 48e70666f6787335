---@meta moonring.updates

--- From a step to new weights, by max_grad_norm, spike_clip and on_nonfinite.
---@class moonring.updates
local updates = {}

---@class moonring.UpdatesOptions
---@field runtime moonring.Runtime
---@field states moonring.States
---@field optimizer moonring.Optimizer
---@field say fun(line: string) takes a line for the log

--- The updates of a run.
---@param c moonring.Configuration
---@param parts moonring.UpdatesOptions
---@return moonring.Updates
function updates.new(c, parts) end

---@class moonring.Updates
---@field skipped integer steps left out so far
---@field in_a_row integer those at the end of them whose loss or gradient was not finite
---@field told? boolean whether a step with nothing to learn was spoken of
---@field skips boolean on_nonfinite: skip
---@field max_norm number
---@field zclip? moonring.ZClip
---@field runtime moonring.Runtime
---@field states moonring.States
---@field optimizer moonring.Optimizer
---@field say fun(line: string)
local Updates = {}

--- Makes a step: backward, clip, the optimizer's step, publish. One with nothing to learn is left
--- out: no update, no decay, said once. Errors: ABORTED, naming step, examples, and layer or
--- parameters, where the loss or the gradient's norm is not finite and
--- on_nonfinite is stop, or ten steps in a row were left out. Collective over all ranks.
---@param step moonring.Step
---@param k integer its number
---@param lr number
---@return { loss: number?, metrics: table?, norm: number? } update nothing where the step was left out; norm is that before clipping
function Updates:make(step, k, lr) end

--- What of this a checkpoint holds.
---@return table
function Updates:state() end

--- Goes on from what a checkpoint held.
---@param state table what state() gave
function Updates:resume(state) end

return updates
