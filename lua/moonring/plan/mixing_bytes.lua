--- Predicts the memory of one layer that has no softmax attention: the gated delta rule with the
-- convolution before it (model/mixers/gated_delta.cc), or a short convolution alone
-- (gated_convolution.cc).
--
-- A rank has t tokens. C is the number of channels of q, k and v together, V the numbers of all
-- values; e: bytes per element of the mixed tensors, w: of states, decays and norms (fp32, or
-- fp64). In every mode a rank has t tokens of all channels, or an equal amount: all tokens of fewer
-- channels. The autograd graph of the delta rule has per token:
--
--   input and output of the convolution                   2 C e
--   the gate, the output of the rule, that of the norm    3 V e
--   per value head: g, beta and their inputs              H (8 w + 2 e)
--   a state for each 64 tokens                            H d_k d_v w / 64
--
-- Its backward runs through the norm, the rule and the convolution, one after the other. Each frees
-- the tensors that it kept when its backward is finished. The rule's workspace does not grow with
-- the length.
local coefficients = require "moonring.plan.coefficients"

---@class moonring.mixing_bytes
local mixing_bytes = {}

-- The fields of attention_bytes.memory. `waiting`: the graph; `steps`: the steps of the backward,
-- each with its workspace `work`, and the bytes of the graph that are freed before it.
local function held(waiting, gradients, steps)
  local most = 0
  for _, step in ipairs(steps) do most = math.max(most, step.work - step.gone) end
  return { waiting = waiting, attention = waiting + gradients + most, kernel = 0,
    communication = 0, exchanged = 0, kept = 0, given = 0, gradient = 0, graph = waiting }
end

--- Peak bytes of a rank while a layer of the delta rule runs backward.
---@param f moonring.MemoryFacts
---@param s { a: number, e: number, w: number, g: number } bytes, letters as in memory.lua
---@return moonring.AttentionBytes
function mixing_bytes.delta(f, s)
  local m, c, t = f.model.delta, coefficients, f.tokens / f.sp
  local e, w = s.e, math.max(4, s.e)
  local values = m.value_heads * m.value_dim
  local channels = 2 * m.key_heads * m.key_dim + values
  local states = math.ceil(t / 64) * m.value_heads * m.key_dim * m.value_dim * w
  local decays = t * m.value_heads * (8 * w + 2 * e)
  local waiting = t * ((m.reordered and 3 or 2) * channels + 3 * values) * e + decays + states
  -- Gradients of the rule's or the convolution's output, and of the gate.
  local gradients = t * (channels + values) * e
  local wide = e == w and c.norm_work or c.norm_work + 2
  -- The rule processes at least the value heads of one key head at a time, at most all chunks.
  local width = math.max(m.key_dim, m.value_dim, 64)
  local numbers = math.min(math.ceil(t / 64) * 64 * m.value_heads * width,
    math.max(64 * m.value_heads / m.key_heads * width, c.rule_numbers[f.device]))
  return held(waiting, gradients, {
    { work = wide * t * values * w, gone = t * channels * e },
    { work = c.rule_work * numbers * w + t * values * e, gone = t * values * e },
    { work = c.convolution_work * t * channels * w, gone = states + t * (channels + values) * e },
  })
end

--- Peak bytes of a rank while a layer of a short convolution runs backward.
---@param f moonring.MemoryFacts
---@param s { a: number, e: number, w: number, g: number }
---@return moonring.AttentionBytes
function mixing_bytes.convolution(f, s)
  local m, t = f.model.convolution, f.tokens / f.sp
  return held(6 * t * m.channels * s.e, 3 * t * m.channels * s.e,
    { { work = coefficients.convolution_work * t * m.channels * math.max(4, s.e), gone = 0 } })
end

return mixing_bytes
