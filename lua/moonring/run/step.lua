--- One training step, from its examples to new weights, in one function.
--
--   loss of the step = sum over its examples, on all ranks / the objective's count of all of it
--
-- This is the only division. Gradients are summed over all ranks and averaged nowhere. With local
-- SGD (choices/rounds.lua) each sp group divides by the count of its own share of the step, and its
-- gradients are summed over its own ranks.
local nonfinite = require "moonring.run.nonfinite"
local passes = require "moonring.run.passes"
local same_data = require "moonring.run.checkpoint.same_data"
local step_count = require "moonring.run.step_count"
local times = require "moonring.base.times"

---@class moonring.step
local step = {}

--- "updated": the weights are new. "idle": nothing to train on (no example, no label, a count of
--- 0). "nonfinite": the loss or the gradient is NaN or infinite, and on_nonfinite is skip.
--- "overflow": the gradient overflowed under the loss scale of fp16, which is now smaller.
--- "out_of_memory": on some rank, and auto_find_batch_size is on. "gradient": without `updates`.
---@alias moonring.StepOutcome
---| "updated" | "idle" | "nonfinite" | "overflow" | "out_of_memory" | "gradient"

---@class moonring.StepResult
---@field outcome moonring.StepOutcome
---@field loss? number of the whole step, the same on all ranks; nil where there is none: idle,
---   nonfinite, out_of_memory
---@field metrics? table<string, number[]> name -> { sum, count } over all ranks; nil as loss is
---@field norm? number of the gradient before clipping, where outcome is "updated"
---@field why? string of every outcome without an update

--- Makes a step: forward, backward, the sum over ranks, clipping, the optimizer, publishing.
--- Without `updates` it ends with the summed gradient, added to what the parameters hold.
--- Collective over all ranks. Errors, on all ranks and before any update: INVALID_ARGUMENT where no
--- rank's loss has a gradient; DATA_LOSS where the ranks of an sp group have different examples;
--- ABORTED, naming step, examples and layer or parameters, where the loss or the gradient is not
--- finite, unless such steps are skipped (and then after ten in a row).
---@param engine moonring.Engine
---@param batch moonring.Step
---@param k integer the step's number, for messages and noise
---@param updates? moonring.Updates
---@param lr? number
---@return moonring.StepResult
function step.make(engine, batch, k, updates, lr)
  engine:begin()
  same_data.check(engine.mesh, batch, "step " .. k)
  local count, idle, whole = step_count.of(engine, batch)
  if not count then
    if updates then updates:skip_idle(k, idle) end
    return { outcome = "idle", why = idle }
  end

  local sums = passes.new(engine, batch, k, count)
  local short = sums:forward_backward(updates and updates.retries)
  if short then
    updates:undo()
    return { outcome = "out_of_memory", why = short }
  end
  local loss, fault = sums:reduce(count / whole)
  times.named(engine.times, "communication", "gradient sum", engine.sum_gradients, engine)
  local made = { outcome = "gradient", loss = loss, metrics = sums:metrics(), why = fault }
  if not updates then return made end

  local overflow
  if not fault then
    made.norm, overflow = updates:clip_gradients(count > 0)
    fault = overflow and nonfinite.of_gradient(batch, overflow, k)
  end
  if made.norm then
    made.outcome = "updated"
    updates:step_optimizer(lr, count > 0, k)
  elseif overflow and updates.loss_scale then
    made.outcome, made.why = "overflow", fault
    updates:shrink_scale(fault)
  else
    updates:skip_nonfinite(fault)
    made = { outcome = "nonfinite", why = fault }
  end
  updates.states:clear_gradients()
  return made
end

return step
