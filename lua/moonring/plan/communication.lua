--- Predicts the bytes that a training step sends, and the seconds that this takes. The bytes are
-- those of attention and other mixers (attention_bytes.lua, mixing_bytes.lua), and of ring
-- collectives over the ranks that share weights and optimizer states. The seconds are bytes divided
-- by bandwidth. They include no latency and assume no overlap with computing, so they are an upper
-- bound for comparing plans, not a forecast.
local attention_bytes = require "moonring.plan.attention_bytes"
local expert_share = require "moonring.plan.expert_share"
local mixing_bytes = require "moonring.plan.mixing_bytes"
local shifted_bytes = require "moonring.plan.shifted_bytes"

---@class moonring.communication
local communication = {}

local BYTES = { fp32 = { e = 4, g = 4, dtype = "fp32" }, bf16 = { e = 2, g = 4, dtype = "bf16" },
  fp16 = { e = 2, g = 4, dtype = "fp16" },
  pure_bf16 = { e = 2, g = 4, dtype = "bf16" }, fp64 = { e = 8, g = 8, dtype = "fp64" } }

-- The number of trainable parameters.
local function learning(f)
  return f.learns.embedding + f.learns.head + f.learns.blocks + f.adapter
end

-- Bytes that a rank sends for gradients and for sharded weights. ZeRO shards over groups of
-- zero_ranks ranks; the groups are replicas, which sum their shards' gradients. In a ring of n
-- ranks, each rank sends (n - 1) / n of the bytes that are all-gathered or reduce-scattered, and
-- twice that for an all-reduce. With local_steps, gradients are summed only over the ranks of an sp
-- group.
local function sharded(f, s)
  local m, learns = f.model, learning(f)
  local ranks = f.local_steps and f.sp or f.ranks
  if ranks == 1 then return 0 end
  if f.zero_stage == 0 then return 2 * (ranks - 1) / ranks * s.g * learns end
  local others, replicas = (f.zero_ranks - 1) / f.zero_ranks, ranks / f.zero_ranks
  local across = 2 * (replicas - 1) / replicas * s.g * learns / f.zero_ranks
  if f.zero_stage == 1 then return others * (s.g + s.e) * learns + across end
  -- A tied embedding is used as embedding and as head, so its gradient is sent twice.
  local scattered = f.micro_batches * s.g * (learns + (m.tied and f.learns.embedding or 0))
  if f.zero_stage == 2 then return others * (scattered + s.e * learns) + across end
  -- Blocks are gathered in each micro-batch, the head's weight for both forward and backward.
  local runs = f.recompute == "none" and 1 or 2
  local gathered = f.micro_batches * s.e * (runs * (m.blocks + f.adapter) + m.embedding + 2 * (
    m.tied and m.embedding or m.head))
  return others * (scattered + gathered) + across
end

-- Bytes per step that a rank sends for the synchronization of local_steps, on average: once per
-- round the sp groups sum their differences.
local function outer(f, s)
  if not f.local_steps then return 0 end
  local groups, shards = f.ranks / f.sp, f.zero_stage > 0 and f.zero_ranks or 1
  return 2 * (groups - 1) / groups * s.g * learning(f) / shards / f.local_steps
end

-- Bytes that a rank sends for weights and gradients. If experts are divided over ranks, the
-- gradients of a rank's own experts are summed over their replicas.
local function states(f, s)
  local own, peers = expert_share.own(f), f.ranks / expert_share.ranks(f)
  return sharded(expert_share.rest(f, false), s) + outer(f, s)
    + 2 * (peers - 1) / peers * s.g * own
end

-- Bytes for mixers other than attention. Selective recompute keeps none of their results.
local function mixers(f, s)
  local delta, convolution, mode = mixing_bytes.traffic(f, s.dtype)
  local whole = f.recompute == "none" and f.depth or math.min(f.whole_layers or 0, f.depth)
  local forwards = 2 - whole / f.depth + (f.reference and 1 or 0)
  local function sum(of, layers) return layers * (forwards * of.forward + of.backward) end
  return sum(delta, (f.model.delta or {}).layers or 0) + sum(convolution, (f.model.convolution
    or {}).layers or 0), mode
end

--- Bytes that a rank sends in a step, on average. `attention` and `mixing` cover all layers; `mode`
--- is that of the gated delta rule. `states` covers gradients, sharded states and the
--- synchronization of local_steps; `outer` is the latter alone. `experts` covers rows sent to
--- experts and back.
---@param f moonring.MemoryFacts
---@return { attention: number, mixing: number, mode: string?, states: number, outer: number,
---   experts: number }
function communication.step(f)
  local m, s = f.model, BYTES[f.precision]
  local forwards = (f.recompute == "block" and 2 or 1) + (f.reference and 1 or 0)
  local function layers(count, window)
    local asked = { tokens = f.tokens, sp = f.sp, heads = m.heads,
      kv_heads = m.kv_heads, head_dim = m.head_dim, value_dim = m.value_dim, contexts = f.contexts,
      head_ranks = f.head_ranks, contiguous = f.contiguous, window = window, element_bytes = s.e,
        sum_bytes = s.g }
    local one = f.shifted and shifted_bytes.traffic(asked, f.division, s.dtype)
      or attention_bytes.traffic(asked)
    return count * (forwards * one.forward + one.backward)
  end
  local windowed = m.windowed or 0
  local plain = (m.attending or m.layers) - windowed
  local mixing, mode = mixers(f, s)
  return { attention = f.micro_batches * (layers(plain) + layers(windowed, m.window)),
    mixing = f.micro_batches * mixing, mode = mode, states = states(f, s), outer = outer(f, s),
    experts = expert_share.traffic(f, s.e) }
end

--- Seconds that a step's bytes take over links of the given bandwidth. Latency is not included, and
--- no overlap with computing is assumed.
---@param f moonring.MemoryFacts
---@param near number bytes per second within a machine
---@param far number bytes per second between machines
---@return number
function communication.seconds(f, near, far)
  local step = communication.step(f)
  return (step.attention + step.mixing) / (f.sp > f.machine and far or near)
    + step.states / (f.ranks > f.machine and far or near)
    + step.experts / (expert_share.ranks(f) > f.machine and far or near)
end

return communication
