--- The loss scale of fp16: what the gradient of the loss begins with in place of 1, so that small
-- numbers of a backward in fp16 are not 0. torch.amp.GradScaler's rule and numbers:
--
--   at first                      2^16
--   a gradient is not finite      the step is left out, the scale halved
--   2000 steps without one        the scale doubled
--
-- All scales are powers of two: where nothing overflows, a scaled gradient divided by its scale has
-- the bits of one that was not scaled (but for numbers below the least normal one). Every rank
-- comes to the same scale, since it goes by the norm of the gradient that is summed over all.
local compute = require "moonring.choices.compute"

---@class moonring.loss_scale
local loss_scale = {}

---@class moonring.LossScale
---@field scale number of the next backward
---@field steps integer steps without an overflow since the scale changed, or would have grown
---@field skipped integer steps left out so far
local LossScale = {}
LossScale.__index = LossScale

local FIRST, GROWTH, BACKOFF, INTERVAL = 2 ^ 16, 2, 0.5, 2000
-- The largest power of two in fp32; and where a gradient of 1 is the least number that fp16 has, so
-- that no lower scale would help.
local MOST, LEAST = 2 ^ 127, 2 ^ -24

--- As at the first step.
---@return moonring.LossScale
function loss_scale.new()
  return setmetatable({ scale = FIRST, steps = 0, skipped = 0 }, LossScale)
end

--- That of a run: nil where nothing is to be scaled.
---@param c moonring.Configuration
---@return moonring.LossScale?
function loss_scale.of(c) return compute.precision(c) == "fp16" and loss_scale.new() or nil end

--- The loss, or part of it, to go backward from.
---@param loss moonring.Tensor
---@return moonring.Tensor
function LossScale:of(loss) return loss * self.scale end

--- After a step whose gradient was finite.
function LossScale:grow()
  self.steps = self.steps + 1
  if self.steps < INTERVAL then return end
  self.steps, self.scale = 0, math.min(self.scale * GROWTH, MOST)
end

--- After one whose gradient was not: that step is left out.
---@return boolean helps false where a scale so low overflows too
function LossScale:shrink()
  self.steps, self.skipped = 0, self.skipped + 1
  self.scale = self.scale * BACKOFF
  return self.scale >= LEAST
end

--- What of this a checkpoint holds.
---@return table
function LossScale:state()
  return { scale = self.scale, steps = self.steps, skipped = self.skipped }
end

--- Goes on from what a checkpoint held.
---@param state table
function LossScale:load_state(state)
  self.scale, self.steps, self.skipped = state.scale, state.steps, state.skipped
end

return loss_scale
