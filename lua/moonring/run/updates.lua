--- Updates the weights by a step: computes its gradient, clips it by max_grad_norm and by the
-- history of its norm (spike_clip), and runs the optimizer's step. If the loss or the gradient is
-- non-finite, the run ends or the step is skipped (on_nonfinite). A step with nothing to train (all
-- labels -100, no example, a count of 0) is always skipped: weights, momentum and decay do not
-- change, but the schedule advances. Under a loss scale (fp16) a non-finite gradient means an
-- overflow: the step is always skipped, the scale is reduced, and the schedule does not advance, as
-- in Transformers; the step's loss is logged as usual.
local errors = require "moonring.base.errors"
local fitting = require "moonring.run.fitting"
local nonfinite = require "moonring.run.nonfinite"
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
---@field rounds? moonring.Rounds if sp groups take independent steps (local_steps)
---@field loss_scale? moonring.LossScale the same as the engine's

---@class moonring.Updates
---@field skipped integer steps skipped so far
---@field in_a_row integer the latest consecutive steps with a non-finite loss or gradient
---@field told? boolean whether a skipped step with nothing to train was logged
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
-- After so many skipped steps in a row the weights themselves are probably non-finite.
local IN_A_ROW = 10

--- The updates of a run.
---@param c moonring.Configuration
---@param parts moonring.UpdatesOptions
---@return moonring.Updates
function updates.new(c, parts)
  options.check("updates.new", parts, PARTS)
  local skips = c.on_nonfinite == "skip"
  parts.engine.tolerant, parts.engine.loss_scale = skips, parts.loss_scale
  return setmetatable({ engine = parts.engine, states = parts.states, optimizer = parts.optimizer,
    shown = parts.shown, say = parts.say, rounds = parts.rounds, skips = skips,
    retries = c.auto_find_batch_size and fitting.possible(parts.engine.mesh, parts.states),
    max_norm = c.max_grad_norm, skipped = 0, in_a_row = 0, loss_scale = parts.loss_scale,
    zclip = c.spike_clip == "zclip" and trainer.zclip() or nil }, Updates)
end

local UNSCALED = "INVALID_ARGUMENT: fp16: wanted run.updates:backward(loss, joined) in place of "
  .. "loss:backward(joined), which knows of no loss scale"

local APART = "INVALID_ARGUMENT: local_steps: wanted run.updates:apply(lr), which ends rounds, in "
  .. "place of clip, the optimizer's step, publish and clear_gradients"

local function clip(self)
  if self.loss_scale and self.engine.mesh:max(self.scaled and 1 or 0) == 0 then
    error(UNSCALED, 0) -- on every rank, as one rank may have had no backward
  end
  local scale = self.loss_scale and self.loss_scale.scale or 1
  local norm = self.states:norm() / scale
  local limit = self.max_norm > 0 and self.max_norm or math.huge
  if self.zclip then limit = math.min(limit, self.zclip:limit(norm)) end
  self.states:clip { norm = norm, max_norm = limit < math.huge and limit or 0,
    loss_scale = scale }
  return norm
end

--- Divides the gradient by the loss scale, and clips it by max_grad_norm and spike_clip. Errors:
--- ABORTED, with the parameters, for a non-finite norm; INVALID_ARGUMENT if there is a loss scale
--- that the backward did not use, and if sp groups take independent steps. Collective over all
--- ranks.
---@return number norm before clipping
function Updates:clip()
  if self.rounds then error(APART, 0) end
  return clip(self)
end

-- Skips the step and reduces the scale. Errors: ABORTED if a lower scale would not help.
local function overflow(self, fault)
  local scale = self.loss_scale.scale
  if not self.loss_scale:shrink() then
    error(("%s; it overflows whatever the loss scale, which was %g: stopped before the update")
      :format(fault, scale), 0)
  end
  self.skipped = self.skipped + 1
  self.say(("the gradient overflows fp16 under a loss scale of %g; the step is left out, the scale "
    .. "is %g"):format(scale, self.loss_scale.scale))
end

-- The norm before clipping; or nil and the error. The same on all ranks. `learns`: whether this
-- rank's group has a gradient.
local function try_clip(self, learns)
  local ok, result = times.within(self.engine.times, "optimizer", pcall, clip, self)
  if not ok and not errors.is(result, "ABORTED") then error(result, 0) end
  local norm, why = ok and result or nil, not ok and result or nil
  if self.rounds then return self.rounds:agree(learns and norm, why) end
  return norm, why
end

-- k: the number of the step, if the run's own loop makes it.
local function make_step(self, lr, learns, k)
  if learns then self.optimizer:step(lr) end
  if self.rounds then
    self.states:clear_gradients() -- frees memory
    self.rounds:made(k)
  end
  self.states:publish()
  if self.loss_scale then self.loss_scale:grow() end
end

local function apply(self, lr, learns, k)
  times.within(self.engine.times, "optimizer", make_step, self, lr, learns, k)
end

--- The backward of a custom loss, like loss:backward(joined), multiplied by the run's loss scale if
--- it has one.
---@param loss moonring.Tensor
---@param joined? moonring.Tensor
function Updates:backward(loss, joined)
  self.scaled = true
  local root = self.loss_scale and self.loss_scale:of(loss) or loss
  times.within(self.engine.times, "backward", root.backward, root, joined)
end

--- For a custom loop, after its backward: sums the gradients over all ranks (over the sp group if
--- groups take independent steps), clips them, runs the optimizer's step, publishes the weights and
--- clears the gradients. Collective over all ranks. Errors: those of clip, except for a gradient
--- that overflows under a loss scale.
---@param lr number
---@return number? norm before clipping; nil if the gradient overflowed and the step was skipped
function Updates:apply(lr)
  times.named(self.engine.times, "communication", "gradient sum", self.states.sum_gradients,
    self.states) -- a sum, not an average
  local norm, fault = try_clip(self, true)
  if norm then
    apply(self, lr, true)
  elseif self.loss_scale then
    overflow(self, fault)
  else
    error(fault, 0)
  end
  self.scaled = nil
  self.states:clear_gradients()
  return norm
end

local function leave_out(self, fault)
  if not self.skips then error(fault .. "; stopped before the update", 0) end
  self.skipped, self.in_a_row = self.skipped + 1, self.in_a_row + 1
  if self.in_a_row == IN_A_ROW then
    error(fault .. ("; %d steps in a row were left out: stopped"):format(IN_A_ROW), 0)
  end
  self.engine:take_back()
  self.say(errors.words(fault) .. "; the step is left out")
end

-- Logged once, since data may have many such steps; the metric skipped_steps counts them.
local function pass_over(self, k, why)
  self.skipped = self.skipped + 1
  if self.told then return end
  self.told = true
  self.say(("step %d has nothing to learn: %s. It is left out: no update, no weight decay, counted "
    .. "in skipped_steps; so is every such step"):format(k, why))
end

--- Runs a step: backward, clip, the optimizer's step, publish. A step with nothing to train is
--- skipped: no update, no decay; this is logged once. Errors: ABORTED, with step, examples, and
--- layer or parameters, for a non-finite loss or gradient norm if on_nonfinite is stop, or if ten
--- steps in a row were skipped. Collective over all ranks.
---@param step moonring.Step
---@param k integer its number
---@param lr number
---@return { loss: number?, metrics: table?, norm: number?, short: string? } update empty if the
---   step was skipped; no norm if the gradient overflowed under a loss scale; short: the error if
---   memory ran out (auto_find_batch_size), and then nothing has changed
function Updates:make(step, k, lr)
  self.shown:learn() -- a checkpoint leaves the averaged weights in place
  self.engine.retries = self.retries
  local loss, metrics, fault, learns, short = self.engine:backward(step, k)
  self.engine.retries = nil
  if short then
    self.states:clear_gradients()
    return { short = short }
  end
  if not loss then
    pass_over(self, k, fault)
    return {}
  end
  local norm, why
  self.scaled = true
  if not fault then
    norm, why = try_clip(self, learns)
    why = why and nonfinite.of_gradient(step, why, k)
  end
  if norm then
    self.in_a_row = 0
    apply(self, lr, learns, k)
  elseif why and self.loss_scale then
    overflow(self, why)
  else
    fault = fault or why
    leave_out(self, fault)
  end
  self.scaled = nil
  self.states:clear_gradients()
  return fault and {} or { loss = loss, metrics = metrics, norm = norm }
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
