--- What a rank holds all through a step: weights, the optimizer's states, a reference; whole,
-- sharded by ZeRO or offloaded. Letters as in memory.lua; `s`: their bytes.
--
-- Of a weight that learns there are up to three things: what leases are of (kept), the master that
-- the optimizer writes, and the optimizer's numbers. The master is apart from what is kept where
-- states are sharded or a GPU's are offloaded, and where casts are made once a step; where weights
-- are sharded, or come from the host, leases are of the master itself unless that is offloaded.
-- A rank's own experts (expert_share.lua) are whole and have no master apart.
local coefficients = require "moonring.plan.coefficients"
local expert_share = require "moonring.plan.expert_share"

---@class moonring.state_bytes
local state_bytes = {}

-- Bytes of that many frozen numbers, of which some may lie packed.
local function of_frozen_base(s, numbers, packed)
  return packed and s.e * (numbers - packed.numbers) + packed.bytes or s.e * numbers
end

-- Bytes a number that learns, of what is kept and of a master apart from it; whether leases come
-- from elsewhere; whether what is kept is on a GPU's host.
local function of_weight(f, s, shards, away)
  local comes = f.zero_stage == 3 or f.offload_weights
  local narrower = s.e < s.w -- bf16, fp16
  if comes then
    local kept = (f.keeps_both or (narrower and away)) and s.e or 0
    local on_host = f.offload_weights or (f.offload_optimizer == "cpu" and not f.keeps_both)
    return kept / shards, s.w / shards, true, away and on_host
  end
  local keeps = narrower and (shards > 1 or away or f.cast_once)
  return keeps and s.e or s.w, (keeps or away) and s.w / shards or 0, false, false
end

-- What a GPU's gradients take of it on their way to the host (trainer/host_sums.h): those of a
-- block that are still being copied, and two pieces in which they are cast or added: those that are
-- not the first of a step, and an adapter's, which products give in their own dtype.
local function leaving(f, s, held)
  local m, piece = f.model, 0
  if f.micro_batches > 1 or (f.adapter > 0 and s.e ~= s.g) then
    piece = f.adapter > 0 and held.learning or m.hidden * m.width
  end
  -- A tied embedding's comes after the head's.
  if (f.micro_batches > 1 or m.tied) and f.learns.embedding > 0 then
    piece = math.max(piece, m.vocab * m.hidden)
  end
  held.block_leaving = s.g * held.learning / held.shards -- what HostSums lets wait
  held.staging = 2 * math.min(coefficients.host_piece, s.g * piece / held.shards)
end

-- Gradients that wait for a bucket (trainer/gradient_scatter.h), as a GPU's come: the head's, then
-- all of a block at once, block after block, then the embedding's. The most that there are when a
-- block's last fill one, what is then beyond whole buckets and travels while the next blocks run,
-- and those that are there in the end.
local function buckets(f, s, held, bucket)
  local m, waiting = f.model, s.g * (f.model.tied and f.learns.embedding or f.learns.head)
  waiting = waiting < bucket and waiting or 0
  for _ = 1, f.learning_layers or m.layers do
    waiting = waiting + s.g * held.learning
    if waiting >= bucket then
      held.sends = math.max(held.sends, waiting)
      held.rest = math.max(held.rest, waiting % bucket == 0 and bucket or waiting % bucket)
      waiting = waiting % bucket
    end
  end
  held.last = waiting + s.g * f.learns.embedding
end

--- What is held all through a step, by part; what lies in the host's memory (a GPU's offload) or on
--- disk instead; and sizes that follow.
---@param f moonring.MemoryFacts
---@param s { a: number, e: number, w: number, g: number }
---@return table held
function state_bytes.held(f, s)
  local own, own_frozen = expert_share.own(f)
  f = expert_share.rest(f, false)
  local m, c = f.model, coefficients
  local learns = f.learns.embedding + f.learns.head + f.learns.blocks + f.adapter
  local frozen = m.embedding + m.head + m.blocks - (learns - f.adapter)
  local shards = f.zero_stage >= 1 and f.zero_ranks or 1
  local away = f.device == "cuda" and f.offload_optimizer ~= nil
  local kept, master, comes, on_host = of_weight(f, s, shards, away)
  local of_frozen = f.zero_stage == 3 and shards or 1
  local layers = f.learning_layers or m.layers
  local held = { learns = learns, shards = shards, away = away, host = 0, disk = 0, own = own,
    block = m.blocks / m.layers, learning = (f.learns.blocks + f.adapter + own) / layers }
  local function moved(bytes, to)
    if to == nil or (to == "cpu" and f.device == "cpu") then return bytes, false end
    local place = to == "disk" and "disk" or "host"
    held[place] = held[place] + bytes
    return 0, true
  end
  held.moved = moved
  held.gradient_shards = f.zero_stage >= 2 and shards or 1
  -- A copy in the products' dtype lives as long as its lease; blocks that were gathered, or have
  -- come from the host, are such copies.
  -- Gradients go on from the weights that are leased to what the optimizer writes.
  held.sinks = master > 0 or shards > 1
  -- Packed blocks are gathered as they lie, and one is unpacked.
  local unpacked = f.packed or f.packed_reference
  local unpacks = unpacked and s.e * unpacked.layer_numbers or 0
  held.gathered = comes and c.gathered_blocks * (s.e * held.block + (f.packed
    and f.packed.layer_bytes - unpacks or 0)) or 0
  local cast = not comes and kept ~= s.e and f.learns
  held.cast = (cast and s.e * cast.blocks / layers or 0) + (s.w ~= s.e and s.e * own / layers or 0)
    + unpacks
  held.head = (comes or (cast and cast.head + (m.tied and cast.embedding or 0) > 0))
    and s.e * m.vocab * m.hidden or 0
  -- An fp32 shard that leases are of is the weight.
  local is_weight = comes and not away and s.e == s.w
  held.weights = (on_host and moved(kept * learns, "cpu") or kept * learns)
    + (f.offload_weights and moved(s.e * frozen / of_frozen, "cpu")
      or of_frozen_base(s, frozen, f.packed) / of_frozen)
    + (is_weight and master * learns or 0) + s.w * own + s.e * own_frozen + s.w * (f.first or 0)
  -- Whole fp32 weights are read before masters of them go to the host.
  held.read = away and not comes and s.w * learns + s.e * frozen or 0
  local reference = f.reference and of_frozen_base(s, m.embedding + m.head + m.blocks,
    f.packed_reference) / of_frozen + s.e * (own + own_frozen) or 0
  held.reference = f.offload_weights and moved(reference, "cpu") or reference
  -- Weights that nobody changes, in the dtype of their file, are its pages: every step reads them,
  -- so they are counted, and they are not anonymous.
  held.mapped = (f.device == "cpu" and f.mapped == 0 and not comes and kept == s.e)
    and s.e * (frozen - (f.packed and f.packed.numbers or 0)) + held.reference or 0
  -- What of it is in work is the host's, or pages of the file.
  local moments = f.moments * (f.moment_bytes or s.g)
  held.optimizer = moved((moments / shards + (is_weight and 0 or master)) * learns,
    f.offload_optimizer) + moments * own
  -- Of rounds the common point, the outer momentum and what travels lie where the masters do.
  local outer = (f.outer_numbers or 0) * s.g * learns / shards
  held.outer = outer
  held.optimizer = held.optimizer + (away and moved(outer, "cpu") or outer)
  -- A gradient is summed over the ranks, in a bucket, and its shard follows the states. Stages 2
  -- and 3 send it as soon as a bucket is full.
  local scatters = f.zero_stage > 0 and (shards > 1 or not away)
  local bucket = scatters and math.min(c.zero_bucket, s.g * learns) or 0
  held.sent, held.waits = bucket + bucket / shards, f.zero_stage >= 2 and bucket or 0
  -- Sums on the host are pinned, whatever the disk holds.
  if away then moved(s.g * learns / shards, "cpu") end
  held.sends, held.last, held.rest = held.waits, 0, 0
  if f.device == "cuda" and held.waits > 0 then buckets(f, s, held, bucket) end
  held.gradients_leave = away and (f.zero_stage >= 2 or shards == 1)
  leaving(f, s, held)
  return held
end

--- What the optimizer's step takes besides: a piece of moments that are not held in full, copies
--- that are made of masters, a weight in the dtype of its gradient.
---@param f moonring.MemoryFacts
---@param s { a: number, e: number, w: number, g: number }
---@param held table of state_bytes.held
---@return number
function state_bytes.step_work(f, s, held)
  local m, c = f.model, coefficients
  local largest = math.max(m.vocab * m.hidden, m.hidden * m.width)
  -- One kernel of a GPU takes weights and moments in bf16 as they are (kernels/adamw.h).
  local fused = f.device == "cuda" and f.moments == 2 and (f.moment_bytes or 2) == 2
  local work = f.moment_bytes and not held.away and not fused and math.min(c.moment_piece, largest)
    * c.moment_work[f.moment_bytes == 2 and "bf16" or "codes"] or 0
  -- Copies in the products' dtype are made of masters that lie on the host.
  if held.read > 0 and s.e < s.w then work = math.min(c.host_piece, s.w * largest) end
  if s.w ~= s.g and held.learns > 0 and not fused then
    work = work + s.g * largest / held.gradient_shards
  end
  return work
end

return state_bytes
