--- Predicts the bytes that a training step sends, and the seconds that this takes. The bytes are
-- those that attention and the other mixers count for each rank (moonring.attention.cost,
-- moonring.mixing.cost), and those of ring collectives over the ranks that share weights and
-- optimizer states. The seconds are bytes divided by bandwidth. They include no latency and assume
-- no overlap with computing, so they are an upper bound for comparing plans, not a forecast.
local attention = require "moonring.native.attention"
local coefficients = require "moonring.plan.coefficients"
local expert_share = require "moonring.plan.expert_share"
local mixing = require "moonring.native.mixing"

---@class moonring.communication
local communication = {}

local NONE = { forward = 0, backward = 0 }

-- Averages a list of costs over the ranks.
local function average(cost)
  local sum = { forward = 0, backward = 0 }
  for _, rank in ipairs(cost) do
    sum.forward = sum.forward + rank.forward.bytes / #cost
    sum.backward = sum.backward + rank.backward.bytes / #cost
  end
  return sum
end

-- Options of moonring.attention for documents of these lengths, divided as the facts say.
local function divided(f, lengths, options)
  options.lengths, options.ranks = lengths, f.sp
  for name, value in pairs(f.division) do options[name] = value end
  return options
end

-- Bytes that a rank sends for one layer's attention, as for one document of all tokens.
local function of_attention(f, window)
  local m = f.model
  return average(attention.cost(divided(f, { math.floor(f.tokens) }, { heads = m.heads,
    kv_heads = m.kv_heads, head_dim = m.head_dim, value_dim = m.value_dim, window = window,
    shifted = f.shifted, dtype = coefficients.bytes[f.precision].dtype })))
end

-- The layout of a micro-batch on the ranks, with documents of almost equal lengths.
local function layout_of(f)
  local count, lengths = math.min(f.sequences or 1, f.tokens), {}
  for i = 1, count do
    lengths[i] = math.floor(i * f.tokens / count) - math.floor((i - 1) * f.tokens / count)
  end
  return attention.layout(divided(f, lengths, {}))
end

--- Bytes that a rank sends for one layer, on average, by the kind of layer; 0 on one rank.
---@class moonring.LayerTraffic
---@field plain { forward: number, backward: number } attention without a window
---@field windowed { forward: number, backward: number }
---@field delta { forward: number, backward: number } the gated delta rule
---@field convolution { forward: number, backward: number }
---@field mode? "heads" | "spans" | "relay" of the delta rule, if there is one

-- Counts the traffic of a layer of each kind.
local function count_layers(f)
  local m, dtype = f.model, coefficients.bytes[f.precision].dtype
  local found = { plain = NONE, windowed = NONE, delta = NONE, convolution = NONE }
  if f.sp == 1 then return found end
  local delta, convolution, windowed = m.delta, m.convolution, m.windowed or 0
  if (m.attending or m.layers) > windowed then found.plain = of_attention(f) end
  if windowed > 0 then found.windowed = of_attention(f, m.window) end
  local layout = (delta or convolution) and layout_of(f)
  if delta then
    local cost = mixing.cost { layout = layout, mode = f.mixing, dtype = dtype,
      key_heads = delta.key_heads, value_heads = delta.value_heads, key_dim = delta.key_dim,
      value_dim = delta.value_dim, taps = delta.taps, device = f.device }
    found.delta, found.mode = average(cost), cost.mode
  end
  if convolution then
    found.convolution = average(mixing.convolution_cost { layout = layout,
      channels = convolution.channels, taps = convolution.taps, dtype = dtype })
  end
  return found
end

-- The counts so far, by the division of the facts and the tokens: the rows of a table that differ
-- only in how they save memory send the same.
local counted = setmetatable({}, { __mode = "k" })

---@param f moonring.MemoryFacts
---@return moonring.LayerTraffic
local function traffic_of(f)
  local of = counted[f.division] or {}
  counted[f.division] = of
  of[f.tokens] = of[f.tokens] or count_layers(f)
  return of[f.tokens]
end

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

--- Bytes that a rank sends in a step, on average. `attention` and `mixing` cover all layers; `mode`
--- is that of the gated delta rule. `states` covers gradients, sharded states and the
--- synchronization of local_steps; `outer` is the latter alone. `experts` covers rows sent to
--- experts and back.
---@param f moonring.MemoryFacts
---@return { attention: number, mixing: number, mode: string?, states: number, outer: number,
---   experts: number }
function communication.step(f)
  local m, s, traffic = f.model, coefficients.bytes[f.precision], traffic_of(f)
  local references = f.reference and 1 or 0
  local function sum(of, layers, forwards)
    return f.micro_batches * layers * (forwards * of.forward + of.backward)
  end
  local windowed = m.windowed or 0
  local forwards = (f.recompute == "block" and 2 or 1) + references
  -- Selective recompute keeps no results of mixers other than attention.
  local whole = f.recompute == "none" and f.depth or math.min(f.whole_layers or 0, f.depth)
  local mixer_forwards = 2 - whole / f.depth + references
  return { attention = sum(traffic.plain, (m.attending or m.layers) - windowed, forwards)
      + sum(traffic.windowed, windowed, forwards),
    mixing = sum(traffic.delta, (m.delta or {}).layers or 0, mixer_forwards)
      + sum(traffic.convolution, (m.convolution or {}).layers or 0, mixer_forwards),
    mode = traffic.mode, states = states(f, s), outer = outer(f, s),
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
