--- One training step in one function, from its examples to new weights.
--
--   loss of the step = sum over its examples on all ranks / the objective's count of the whole step
--
-- This is the only division: gradients are summed over all ranks, not averaged. With local SGD
-- (choices/rounds.lua) each sp group divides by the count of its own share of the step, and its
-- gradients are summed over its own ranks only.
local errors = require "moonring.base.errors"
local gradient_checks = require "moonring.run.gradient_checks"
local named_losses = require "moonring.run.named_losses"
local nonfinite = require "moonring.run.nonfinite"
local passes = require "moonring.run.passes"
local same_data = require "moonring.run.checkpoint.same_data"
local step_count = require "moonring.run.step_count"

---@class moonring.step
local step = {}

--- The outcome of a step.
---   "updated"        the weights are new
---   "idle"           nothing to train on: no example, no label, or a count of 0
---   "nonfinite"      the loss or the gradient is NaN or infinite, and on_nonfinite is skip
---   "overflow"       the gradient overflowed under the loss scale of fp16, which was then reduced
---   "out_of_memory"  memory ran out on some rank, with auto_find_batch_size
---   "gradient"       `updates` was not given, so only the gradient was computed
---@alias moonring.StepOutcome
---| "updated" | "idle" | "nonfinite" | "overflow" | "out_of_memory" | "gradient"

--- The result of a step.
---@class moonring.StepResult
---@field outcome moonring.StepOutcome
--- `loss` of the whole step, the same on all ranks; nil if the outcome is idle, nonfinite or
--- out_of_memory.
---@field loss? number
---@field metrics? table<string, number[]> name -> { sum, count } over all ranks; nil if loss is
---@field norm? number of the gradient before clipping, if outcome is "updated"
---@field why? string the reason for an outcome without an update

-- Refuses a step that is divided over other dp ranks than the engine's. A step that is not divided
-- is each sp group's own, except under a survey, which numbers the examples of the whole step.
local function check_division(engine, batch, k)
  local dp = engine.mesh:dp_size()
  local over = batch.dp_size and batch:dp_size() or dp -- a script's own step may not say
  if over == dp or over == 1 and not engine.objective.survey then return end
  errors.fail("step ", k, ": it is divided over ", over, " dp ranks, and the engine's mesh has ",
    dp, ": expected a step made with the engine's mesh (data.step { mesh = mesh, .. })")
end

--- Runs a step: forward, backward, the sum over ranks, clipping, the optimizer, and the exchange of
--- new weights between the ranks that shard them. Without `updates` it ends after the sum over
--- ranks, which is added to the parameters' gradients. Collective over all ranks. Errors, on all
--- ranks and before any update: INVALID_ARGUMENT if no rank's loss has a gradient; DATA_LOSS if the
--- ranks of an sp group have different examples; ABORTED, with step, examples and layer or
--- parameters, for a non-finite loss or gradient. If such steps are skipped, ABORTED is raised
--- after ten in a row.
---@param engine moonring.Engine
---@param batch moonring.Step
---@param k integer the step's number, for messages and noise
---@param updates? moonring.Updates
---@param lr? number
---@return moonring.StepResult
function step.make(engine, batch, k, updates, lr)
  engine:begin()
  check_division(engine, batch, k)
  same_data.check(engine.mesh, batch, "step " .. k)
  local count, idle, whole = step_count.of(engine, batch)
  if not count then
    if updates then updates:skip_idle(k, idle) end
    return { outcome = "idle", why = idle }
  end

  local before = gradient_checks.begin(engine)
  local run = engine.objective.losses and named_losses.run or passes.run
  local sums = run(engine, batch, k, count, whole, updates and engine.retries)
  if sums.short then
    updates:undo()
    return { outcome = "out_of_memory", why = sums.short }
  end
  gradient_checks.unlisted(engine, before, k)
  if not sums.fault then
    gradient_checks.unreached(engine, before, k, updates and updates.say)
  end
  local fault, overflow = sums.fault, nil
  local made = { outcome = "gradient", loss = sums.loss, metrics = sums.metrics, why = fault }
  if not updates then return made end

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
