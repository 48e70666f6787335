--- From a gradient to new weights (the order of calls: step.lua). Gradients are clipped by
-- max_grad_norm and by the history of their norm (spike_clip).
--
-- Steps without an update:
--   idle        nothing to train on. Skipped, whatever on_nonfinite is: weights, momentum and decay
--               stay, the schedule advances
--   nonfinite   the loss or the gradient is NaN or infinite. Ends the run, or is skipped
--               (on_nonfinite)
--   overflow    the gradient is not finite under a loss scale (fp16). Skipped, whatever
--               on_nonfinite is; the scale shrinks, and the schedule waits, as that of Transformers
--               does. The loss is logged
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
---@field say fun(line: string) takes a line for the log
---@field rounds? moonring.Rounds where sp groups make steps of their own
---@field loss_scale? moonring.LossScale the engine's, too

---@class moonring.Updates
---@field skipped integer steps left out so far
---@field in_a_row integer those at the end of them whose loss or gradient was not finite
---@field has_told_idle? boolean whether a line has reported an idle step
---@field retries? boolean auto_find_batch_size: an allocation that fails ends the step, not the run
---@field skips boolean on_nonfinite: skip
---@field max_norm number
---@field zclip? moonring.ZClip
---@field loss_scale? moonring.LossScale
---@field scaled? boolean a backward of this step was scaled on this rank, where there is a scale
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
-- Steps left out one after another, after which the weights themselves must be other than finite.
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
    retries = engine.retries,
    max_norm = c.max_grad_norm, skipped = 0, in_a_row = 0, loss_scale = parts.loss_scale,
    zclip = c.spike_clip == "zclip" and trainer.zclip() or nil }, Updates)
end

local UNSCALED = "INVALID_ARGUMENT: fp16: wanted run.updates:backward(loss, joined) in place of "
  .. "loss:backward(joined), which knows of no loss scale"

local APART = "INVALID_ARGUMENT: local_steps: wanted run.updates:apply(lr), which ends rounds, in "
  .. "place of clip, the optimizer's step, publish and clear_gradients"

local function clip(self)
  if self.loss_scale and self.engine.mesh:max(self.scaled and 1 or 0) == 0 then
    error(UNSCALED, 0) -- on every rank: one may have had nothing to go backward from
  end
  local scale = self.loss_scale and self.loss_scale.scale or 1
  local norm = self.states:norm() / scale
  local limit = self.max_norm > 0 and self.max_norm or math.huge
  if self.zclip then limit = math.min(limit, self.zclip:limit(norm)) end
  self.states:clip { norm = norm, max_norm = limit < math.huge and limit or 0,
    loss_scale = scale }
  return norm
end

--- Divides the gradient by the loss scale, and scales it down to max_grad_norm, and by spike_clip.
--- Errors: ABORTED, naming parameters, where the norm is not finite; INVALID_ARGUMENT where there
--- is a loss scale and the backward was made without, and where groups make steps of their own.
--- Collective over all ranks.
---@return number norm before clipping
function Updates:clip()
  if self.rounds then error(APART, 0) end
  return clip(self)
end

--- Skips a step whose gradient overflowed under the loss scale, and shrinks the scale. Errors:
--- ABORTED where a smaller scale does not help.
---@param fault string
function Updates:shrink_scale(fault)
  local scale = self.loss_scale.scale
  if not self.loss_scale:shrink() then
    error(("%s; it overflows whatever the loss scale, which was %g: stopped before the update")
      :format(fault, scale), 0)
  end
  self.skipped = self.skipped + 1
  self.say(("the gradient overflows fp16 under a loss scale of %g; the step is left out, the scale "
    .. "is %g"):format(scale, self.loss_scale.scale))
end

-- As clip_gradients, of gradients that were computed under the loss scale.
local function clip_if_finite(self, has_gradient)
  local ok, result = times.within(self.engine.times, "optimizer", pcall, clip, self)
  self.scaled = nil
  if not ok and not errors.is(result, "ABORTED") then error(result, 0) end
  local norm, why = ok and result or nil, not ok and result or nil
  if self.rounds then return self.rounds:agree(has_gradient and norm, why) end
  return norm, why
end

--- Clips the gradient of a step. The results are the same on all ranks. Collective over all ranks.
---@param has_gradient boolean of this rank's sp group; false where its share of the step is idle
---@return number? norm before clipping; nil where it is not finite
---@return string? why where it is not finite
function Updates:clip_gradients(has_gradient)
  self.scaled = true
  return clip_if_finite(self, has_gradient)
end

local function step_and_publish(self, lr, has_gradient, k)
  if has_gradient then self.optimizer:step(lr) end
  if self.rounds then
    self.states:clear_gradients() -- makes room
    self.rounds:made(k)
  end
  self.states:publish()
  if self.loss_scale then self.loss_scale:grow() end
end

--- The optimizer's step, and the exchange of new weights between the ranks that shard them.
---@param lr number
---@param has_gradient boolean of this rank's sp group
---@param k? integer the step's number, of the run's own loop
function Updates:step_optimizer(lr, has_gradient, k)
  self.in_a_row = 0
  times.within(self.engine.times, "optimizer", step_and_publish, self, lr, has_gradient, k)
end

--- The backward of a loss of one's own, as loss:backward(joined), under the run's loss scale where
--- it has one.
---@param loss moonring.Tensor
---@param joined? moonring.Tensor
function Updates:backward(loss, joined)
  self.scaled = true
  local root = self.loss_scale and self.loss_scale:of(loss) or loss
  times.within(self.engine.times, "backward", root.backward, root, joined)
end

--- For loops of a script's own, after their backward: sums the gradients over all ranks (with
--- local SGD, over the sp group), clips them, makes the optimizer's step, publishes the weights and
--- clears the gradients. Collective over all ranks. Errors: those of clip, except of a gradient
--- that overflows under a loss scale.
---@param lr number
---@return number? norm before clipping; nil of a step that overflowed and was skipped
function Updates:apply(lr)
  times.named(self.engine.times, "communication", "gradient sum", self.states.sum_gradients,
    self.states) -- nothing is averaged
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

--- Skips a step whose loss or gradient is not finite. Errors: ABORTED where on_nonfinite is stop,
--- and at the tenth such step in a row.
---@param fault string
function Updates:skip_nonfinite(fault)
  if not self.skips then error(fault .. "; stopped before the update", 0) end
  self.skipped, self.in_a_row = self.skipped + 1, self.in_a_row + 1
  if self.in_a_row == IN_A_ROW then
    error(fault .. ("; %d steps in a row were left out: stopped"):format(IN_A_ROW), 0)
  end
  self.engine:undo()
  self.say(errors.words(fault) .. "; the step is left out")
end

--- Skips a step with nothing to train on. One line says so, of the first: data may hold many such
--- steps, and skipped_steps counts them.
---@param k integer the step's number
---@param why string
function Updates:skip_idle(k, why)
  self.skipped = self.skipped + 1
  if self.has_told_idle then return end
  self.has_told_idle = true
  self.say(("step %d has nothing to learn: %s. It is left out: no update, no weight decay, counted "
    .. "in skipped_steps; so is every such step"):format(k, why))
end

--- Drops what a step has done that ran out of memory, so that it can be made again.
function Updates:undo()
  self.engine:undo()
  self.states:clear_gradients()
end

--- What of this a checkpoint holds.
---@return table
function Updates:state()
  return { skipped = self.skipped, in_a_row = self.in_a_row,
    zclip = self.zclip and self.zclip:state() }
end

--- Goes on from what a checkpoint held.
---@param state table what state() gave
function Updates:load_state(state)
  self.skipped, self.in_a_row = state.skipped, state.in_a_row
  if self.zclip and state.zclip then self.zclip:load_state(state.zclip) end
end

return updates
