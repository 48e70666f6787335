--- From a step to new weights: its gradient, clipped by max_grad_norm and by its norm's history
-- (spike_clip), and the optimizer's step. A step whose loss or gradient is not finite updates
-- nothing: it ends the run, or is left out (on_nonfinite). So is a step with nothing to learn (no
-- label in it but -100, no example, a count of 0), whatever on_nonfinite says: weights, momentum
-- and decay stay as they are, the schedule goes on. Under a loss scale (fp16) a gradient that is
-- not finite has overflowed: that step is left out whatever on_nonfinite says, the scale gives way,
-- and the schedule waits for it, as Transformers' does; its loss is a loss like any other.
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
---@field say fun(line: string) takes a line for the log
---@field rounds? moonring.Rounds where sp groups make steps of their own
---@field loss_scale? moonring.LossScale the engine's, too

---@class moonring.Updates
---@field skipped integer steps left out so far
---@field in_a_row integer those at the end of them whose loss or gradient was not finite
---@field told? boolean whether a step with nothing to learn was spoken of
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

-- The step is left out, and the scale gives way. Errors: ABORTED where that is of no use.
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

-- The norm before clipping; or nothing, and what is wrong with it. The same on all ranks.
-- `learns`: whether this rank's group has a gradient.
local function try_clip(self, learns)
  local ok, result = times.within(self.engine.times, "optimizer", pcall, clip, self)
  if not ok and not errors.is(result, "ABORTED") then error(result, 0) end
  local norm, why = ok and result or nil, not ok and result or nil
  if self.rounds then return self.rounds:agree(learns and norm, why) end
  return norm, why
end

-- k: the step's number, where it is of the run's own loop.
local function make_step(self, lr, learns, k)
  if learns then self.optimizer:step(lr) end
  if self.rounds then
    self.states:clear_gradients() -- makes room
    self.rounds:made(k)
  end
  self.states:publish()
  if self.loss_scale then self.loss_scale:grow() end
end

local function apply(self, lr, learns, k)
  times.within(self.engine.times, "optimizer", make_step, self, lr, learns, k)
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

--- What a loop of one's own does after its backward: sums the gradients over all ranks (those of
--- the sp group where groups make steps of their own), clips them, makes the optimizer's step,
--- publishes the weights and clears the gradients. Collective over all ranks. Errors: as clip's,
--- but for a gradient that overflows under a loss scale.
---@param lr number
---@return number? norm before clipping; nil of a step that overflowed, and was left out
function Updates:apply(lr)
  times.named(self.engine.times, "communication", "gradient sum", self.states.sum_gradients,
    self.states) -- nothing is averaged
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

-- Said once: data may hold many such steps, and skipped_steps counts them.
local function pass_over(self, k, why)
  self.skipped = self.skipped + 1
  if self.told then return end
  self.told = true
  self.say(("step %d has nothing to learn: %s. It is left out: no update, no weight decay, counted "
    .. "in skipped_steps; so is every such step"):format(k, why))
end

--- Makes a step: backward, clip, the optimizer's step, publish. One with nothing to learn is left
--- out: no update, no decay, said once. Errors: ABORTED, naming step, examples, and layer or
--- parameters, where the loss or the gradient's norm is not finite and on_nonfinite is stop, or ten
--- steps in a row were left out. Collective over all ranks.
---@param step moonring.Step
---@param k integer its number
---@param lr number
---@return { loss: number?, metrics: table?, norm: number?, short: string? } update nothing where it
---   was left out; no norm where the gradient overflowed under a loss scale; short: memory ran out
---   (auto_find_batch_size), and nothing has changed
function Updates:make(step, k, lr)
  self.shown:learn() -- a checkpoint has the others
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
