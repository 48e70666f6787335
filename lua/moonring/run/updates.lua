--- Updates the weights from a step's gradient; step.lua calls these functions in order. Gradients
-- are clipped by max_grad_norm and by the history of their norm (spike_clip).
--
-- Steps without an update:
--   idle        nothing to train on. Always skipped: weights, momentum and decay do not change, but
--               the schedule advances
--   nonfinite   the loss or the gradient is NaN or infinite. Ends the run, or is skipped
--               (on_nonfinite)
--   overflow    the gradient is non-finite under a loss scale (fp16). Always skipped: the scale is
--               reduced, and the schedule does not advance, as in Transformers. The loss is logged
local errors = require "moonring.base.errors"
local fitting = require "moonring.run.fitting"
local options = require "moonring.base.options"
local times = require "moonring.base.times"
local trainer = require "moonring.native.trainer"

---@class moonring.updates
local updates = {}

---@class moonring.UpdatesOptions
---@field engine moonring.Engine
---@field states moonring.States
---@field optimizer moonring.Optimizer
---@field shown moonring.ShownWeights
---@field say fun(line: string) logs a line
---@field rounds? moonring.Rounds with local SGD (local_steps)
---@field loss_scale? moonring.LossScale the same as the engine's

---@class moonring.Updates
---@field skipped integer steps skipped so far
---@field in_a_row integer the latest consecutive steps with a non-finite loss or gradient
---@field has_told_idle? boolean whether an idle step was logged
---@field skips boolean on_nonfinite: skip
---@field max_norm number
---@field zclip? moonring.ZClip
---@field loss_scale? moonring.LossScale
---@field scaled? boolean with a loss scale: whether this rank scaled a backward of this step
---@field engine moonring.Engine
---@field states moonring.States
---@field optimizer moonring.Optimizer
---@field shown moonring.ShownWeights
---@field rounds? moonring.Rounds
---@field say fun(line: string)
local Updates = {}
Updates.__index = Updates

local PARTS = { engine = "table", states = "any", optimizer = "any", shown = "table",
  say = "function", rounds = "table?", loss_scale = "table?" }
-- The number of skipped steps in a row after which the run ends, because the weights themselves are
-- probably non-finite.
local IN_A_ROW = 10

--- The updates of a run.
---@param c moonring.Configuration
---@param parts moonring.UpdatesOptions
---@return moonring.Updates
function updates.new(c, parts)
  options.check("updates.new", parts, PARTS)
  local skips = c.on_nonfinite == "skip"
  local engine = parts.engine
  engine.tolerant, engine.loss_scale = skips, parts.loss_scale
  engine.retries = c.auto_find_batch_size and fitting.possible(engine.mesh, parts.states)
  return setmetatable({ engine = engine, states = parts.states, optimizer = parts.optimizer,
    shown = parts.shown, say = parts.say, rounds = parts.rounds, skips = skips,
    max_norm = c.max_grad_norm, skipped = 0, in_a_row = 0, loss_scale = parts.loss_scale,
    zclip = c.spike_clip == "zclip" and trainer.zclip() or nil }, Updates)
end

local UNSCALED = "fp16: expected run.updates:backward(loss, joined) in place of "
  .. "loss:backward(joined), which knows of no loss scale"

local APART = "local_steps: expected run.updates:apply(lr), which ends rounds, in "
  .. "place of clip, the optimizer's step, publish and clear_gradients"

local function clip(self)
  if self.loss_scale and self.engine.mesh:max(self.scaled and 1 or 0) == 0 then
    errors.fail(UNSCALED) -- on every rank: one may have had nothing to go backward from
  end
  local scale = self.loss_scale and self.loss_scale.scale or 1
  local norm = self.states:norm() / scale
  local limit = self.max_norm > 0 and self.max_norm or math.huge
  if self.zclip then limit = math.min(limit, self.zclip:limit(norm)) end
  self.states:clip { norm = norm, max_norm = limit < math.huge and limit or 0,
    loss_scale = scale }
  return norm
end

--- Divides the gradient by the loss scale, and clips it by max_grad_norm and spike_clip. Collective
--- over all ranks. Errors: ABORTED, with the parameters, for a non-finite norm; INVALID_ARGUMENT if
--- the run has a loss scale and the backward did not use it; INVALID_ARGUMENT with local SGD.
---@return number norm before clipping
function Updates:clip()
  if self.rounds then errors.fail(APART) end
  return clip(self)
end

--- Skips a step whose gradient overflowed under the loss scale, and reduces the scale. Errors:
--- ABORTED if a smaller scale would not help.
---@param fault moonring.Error
function Updates:shrink_scale(fault)
  local scale = self.loss_scale.scale
  if not self.loss_scale:shrink() then
    error(errors.with(fault, ("; it overflows whatever the loss scale, which was %g: stopped "
      .. "before the update"):format(scale)), 0)
  end
  self.skipped = self.skipped + 1
  self.say(("the gradient overflows fp16 under a loss scale of %g; the step is skipped, the scale "
    .. "is %g"):format(scale, self.loss_scale.scale))
end

-- Clips gradients that were computed under the loss scale. Returns the norm, or nil and the error
-- if the norm is non-finite.
local function clip_if_finite(self, has_gradient)
  local ok, result = times.within(self.engine.times, "optimizer", pcall, clip, self)
  self.scaled = nil
  if not ok and not errors.is(result, "ABORTED") then error(result, 0) end
  local norm, why = ok and result or nil, not ok and result or nil
  if self.rounds then return self.rounds:agree(has_gradient and norm, why) end
  return norm, why
end

--- Clips the gradient of a step. The results are the same on all ranks. Collective over all ranks.
---@param has_gradient boolean whether this rank's sp group has one; false if its share is idle
---@return number? norm before clipping; nil if it is non-finite
---@return string? why the error if it is non-finite
function Updates:clip_gradients(has_gradient)
  self.scaled = true
  return clip_if_finite(self, has_gradient)
end

local function step_and_publish(self, lr, has_gradient, k)
  if has_gradient then self.optimizer:step(lr) end
  if self.rounds then
    self.states:clear_gradients() -- frees memory
    self.rounds:made(k)
  end
  self.states:publish()
  if self.loss_scale then self.loss_scale:grow() end
end

--- Runs the optimizer's step. Ranks that shard the weights then exchange the new ones.
---@param lr number
---@param has_gradient boolean whether this rank's sp group has one
---@param k? integer the step's number, if the run's own loop makes it
function Updates:step_optimizer(lr, has_gradient, k)
  self.in_a_row = 0
  times.within(self.engine.times, "optimizer", step_and_publish, self, lr, has_gradient, k)
end

--- Runs the backward of a custom loss, as loss:backward(joined). If the run has a loss scale, the
--- loss is multiplied by it first.
---@param loss moonring.Tensor
---@param joined? moonring.Tensor
function Updates:backward(loss, joined)
  self.scaled = true
  local root = self.loss_scale and self.loss_scale:of(loss) or loss
  times.within(self.engine.times, "backward", root.backward, root, joined)
end

--- Updates the weights in a custom training loop, after its backward: sums the gradients over all
--- ranks (with local SGD, over the sp group), clips them, runs the optimizer's step, exchanges the
--- new weights and clears the gradients. Collective over all ranks. Errors: those of clip, except
--- that the step is skipped if the gradient overflows under a loss scale.
---@param lr number
---@return number? norm before clipping; nil if the gradient overflowed and the step was skipped
function Updates:apply(lr)
  times.named(self.engine.times, "communication", "gradient sum", self.states.sum_gradients,
    self.states) -- a sum, not an average
  local norm, fault = clip_if_finite(self, true)
  if norm then
    self:step_optimizer(lr, true)
  elseif self.loss_scale then
    self:shrink_scale(fault)
  else
    error(fault, 0)
  end
  self.states:clear_gradients()
  return norm
end

--- Skips a step with a non-finite loss or gradient. Errors: ABORTED if on_nonfinite is stop, or if
--- this is the tenth such step in a row.
---@param fault moonring.Error
function Updates:skip_nonfinite(fault)
  if not self.skips then error(errors.with(fault, "; stopped before the update"), 0) end
  self.skipped, self.in_a_row = self.skipped + 1, self.in_a_row + 1
  if self.in_a_row == IN_A_ROW then
    error(errors.with(fault, "; ", IN_A_ROW, " steps in a row were skipped: stopped"), 0)
  end
  self.engine:undo()
  self.say(errors.words(fault) .. "; the step is skipped")
end

--- Skips a step with nothing to train on. Only the first is logged, since data may have many such
--- steps; the metric skipped_steps counts them.
---@param k integer the step's number
---@param why string
function Updates:skip_idle(k, why)
  self.skipped = self.skipped + 1
  if self.has_told_idle then return end
  self.has_told_idle = true
  self.say(("step %d has nothing to train on: %s. It is skipped: no update, no weight decay, "
    .. "counted in skipped_steps; so is every such step"):format(k, why))
end

--- Discards the results of a step that ran out of memory, so that it can be repeated.
function Updates:undo()
  self.engine:undo()
  self.states:clear_gradients()
end

--- The state that a checkpoint stores.
---@return table
function Updates:state()
  return { skipped = self.skipped, in_a_row = self.in_a_row,
    zclip = self.zclip and self.zclip:state() }
end

--- Restores the state from a checkpoint.
---@param state table the result of state()
function Updates:load_state(state)
  self.skipped, self.in_a_row = state.skipped, state.in_a_row
  if self.zclip and state.zclip then self.zclip:load_state(state.zclip) end
end

return updates
