--- The loss scale of fp16: the loss is multiplied by it before the backward, so that small
-- gradients do not become 0 in fp16. The rule and its constants are those of torch.amp.GradScaler:
--
--   initial scale                            2^16
--   after a non-finite gradient              the step is skipped and the scale halved
--   after 2000 steps without one             the scale is doubled
--
-- All scales are powers of two. So without overflow, dividing a scaled gradient by the scale gives
-- the unscaled gradient bit for bit (except for subnormal numbers). Every rank has the same scale,
-- since the scale depends only on the norm of the gradient summed over all ranks.
local compute = require "moonring.choices.compute"

---@class moonring.loss_scale
local loss_scale = {}

--- The loss scale of a run, and the counts that decide when it changes.
---@class moonring.LossScale
---@field scale number of the next backward
--- `steps`: steps without an overflow since the scale last changed or reached its maximum.
---@field steps integer
---@field skipped integer steps skipped so far
local LossScale = {}
LossScale.__index = LossScale

local FIRST, GROWTH, BACKOFF, INTERVAL = 2 ^ 16, 2, 0.5, 2000
-- Bounds of the scale. MOST is the largest power of two in fp32. LEAST maps a gradient of 1 to the
-- smallest fp16 number, so a smaller scale would be useless.
local MOST, LEAST = 2 ^ 127, 2 ^ -24

--- The initial loss scale.
---@return moonring.LossScale
function loss_scale.new()
  return setmetatable({ scale = FIRST, steps = 0, skipped = 0 }, LossScale)
end

--- The loss scale of a run; nil if its precision needs none.
---@param c moonring.Configuration
---@return moonring.LossScale?
function loss_scale.of(c) return compute.precision(c) == "fp16" and loss_scale.new() or nil end

--- Multiplies the loss, or one of its terms, by the scale. Call it before the backward.
---@param loss moonring.Tensor
---@return moonring.Tensor
function LossScale:of(loss) return loss * self.scale end

--- Counts a step, and doubles the scale after 2000 of them. Call it after a step with a finite
--- gradient.
function LossScale:grow()
  self.steps = self.steps + 1
  if self.steps < INTERVAL then return end
  self.steps, self.scale = 0, math.min(self.scale * GROWTH, MOST)
end

--- Halves the scale. Call it after a step with a non-finite gradient; that step is skipped.
---@return boolean helps false if even the lowest useful scale overflows
function LossScale:shrink()
  self.steps, self.skipped = 0, self.skipped + 1
  self.scale = self.scale * BACKOFF
  return self.scale >= LEAST
end

--- The state that a checkpoint stores.
---@return table
function LossScale:state()
  return { scale = self.scale, steps = self.steps, skipped = self.skipped }
end

--- Restores the state from a checkpoint.
---@param state table
function LossScale:load_state(state)
  self.scale, self.steps, self.skipped = state.scale, state.steps, state.skipped
end

return loss_scale
