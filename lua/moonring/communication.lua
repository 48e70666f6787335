--- What a training step sends, in closed form, and an estimate of how long links take for it. Bytes are those of attention_bytes.lua and of ring collectives over the ranks
-- that share states; seconds are bytes over bandwidth, without latency and without what hides under computation: an upper bound to compare plans by, not a forecast.
local attention_bytes = require "moonring.attention_bytes"

local communication = {}

local BYTES = { fp32 = { e = 4, g = 4 }, bf16 = { e = 2, g = 4 }, pure_bf16 = { e = 2, g = 4 }, fp64 = { e = 8, g = 8 } }

--- Bytes that a rank sends in a step, on average: { attention, states }. `f`: the facts of memory.lua.
--   attention  every layer's, forward and backward; with recompute: block the forward's a second time; a live reference's forward
--   states     gradients summed over all ranks; with ZeRO each rank gets only its shard of them (from stage 2 on for each micro-batch), and whole weights go round after
--              the step, or (stage 3) twice a micro-batch
function communication.step(f)
  local m, s = f.model, BYTES[f.precision]
  local layer = attention_bytes.traffic { tokens = f.tokens, sp = f.sp, heads = m.heads, kv_heads = m.kv_heads, head_dim = m.head_dim, contexts = f.contexts,
    head_ranks = f.head_ranks, contiguous = f.contiguous, element_bytes = s.e, sum_bytes = s.g }
  local forwards = (f.recompute == "block" and 2 or 1) + (f.reference and 1 or 0)
  local attention = f.micro_batches * m.layers * (forwards * layer.forward + layer.backward)

  local learns = f.learns.embedding + f.learns.head + f.learns.blocks + f.adapter
  local weights = m.embedding + m.head + m.blocks + f.adapter
  local others = (f.ranks - 1) / f.ranks -- a ring of n sends (n - 1) / n of what is gathered, or reduced to shards
  local states
  if f.zero_stage == 0 then
    states = 2 * others * s.g * learns
  elseif f.zero_stage < 3 then
    states = others * (s.g * learns * (f.zero_stage == 2 and f.micro_batches or 1) + s.e * learns)
  else
    states = others * f.micro_batches * (s.g * learns + 2 * s.e * weights)
  end
  return { attention = attention, states = f.ranks > 1 and states or 0 }
end

--- Seconds of a step's bytes over links of `near` bytes a second within a machine and `far` between machines.
function communication.seconds(f, near, far)
  local step = communication.step(f)
  return step.attention / (f.sp > f.machine and far or near) + step.states / (f.ranks > f.machine and far or near)
end

return communication
