--- Predicts the memory that a rank needs during a whole step: weights, the optimizer's states and a
-- reference model, each whole, sharded by ZeRO, or offloaded. memory.lua defines the symbols; `s`
-- has bytes per element.
--
-- A trainable weight has up to three tensors: the kept weight, which the forward uses; the master,
-- which the optimizer updates; and the optimizer's state. Kept weight and master are separate
-- tensors if states are sharded, if a GPU's states are offloaded, or if casts are made once per
-- step. If weights are sharded or fetched from the host, the forward uses the master itself, unless
-- it is offloaded. A rank's own experts (expert_share.lua) are whole and have no separate master.
local coefficients = require "moonring.plan.coefficients"
local expert_share = require "moonring.plan.expert_share"

---@class moonring.state_bytes
local state_bytes = {}

-- Bytes of frozen parameters, some of which may be quantized.
local function of_frozen_base(s, numbers, packed)
  return packed and s.e * (numbers - packed.numbers) + packed.bytes or s.e * numbers
end

-- Bytes per trainable parameter of the kept weight, and of a separate master. Also returns whether
-- the forward gathers or fetches its weights, and whether the kept weight is in the memory of a
-- GPU's host.
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

-- Sets the GPU memory of gradients that are being copied to the host
-- (trainer/sharding/host_sums.h): the gradients of one block, and two pieces for casts and
-- additions. The pieces are needed from the second micro-batch of a step on, and for an adapter's
-- gradients, which have the products' dtype.
local function leaving(f, s, held)
  local m, piece = f.model, 0
  if f.micro_batches > 1 or (f.adapter > 0 and s.e ~= s.g) then
    piece = f.adapter > 0 and held.learning or m.hidden * m.width
  end
  -- A tied embedding's gradient comes after the head's.
  if (f.micro_batches > 1 or m.tied) and f.learns.embedding > 0 then
    piece = math.max(piece, m.vocab * m.hidden)
  end
  held.block_leaving = s.g * held.learning / held.shards -- the most that HostSums delays
  held.staging = 2 * math.min(coefficients.host_piece, s.g * piece / held.shards)
end

-- Sets the sizes of gradients that wait for a full bucket (trainer/sharding/gradient_scatter.h) on
-- a GPU. First come the head's, then those of each block, last the embedding's. held.sends: the
-- most bytes that exist when a block's gradients fill a bucket. held.rest: the remainder beyond
-- whole buckets, which is sent while the next blocks run. held.last: the bytes that remain at the
-- end.
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

--- Computes the memory that lasts during a whole step, by component; also the bytes stored in the
--- host's memory (a GPU's offload) or on disk instead, and derived sizes.
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
  -- A copy in the products' dtype is freed after its use. Gathered blocks, and blocks fetched from
  -- the host, are such copies. Gradients of the weights that the forward uses are added to the
  -- masters'.
  held.sinks = master > 0 or shards > 1
  -- Quantized blocks are gathered in quantized form, and one is dequantized.
  local unpacked = f.packed or f.packed_reference
  local unpacks = unpacked and s.e * unpacked.layer_numbers or 0
  held.gathered = comes and c.gathered_blocks * (s.e * held.block + (f.packed
    and f.packed.layer_bytes - unpacks or 0)) or 0
  local cast = not comes and kept ~= s.e and f.learns
  held.cast = (cast and s.e * cast.blocks / layers or 0) + (s.w ~= s.e and s.e * own / layers or 0)
    + unpacks
  held.head = (comes or (cast and cast.head + (m.tied and cast.embedding or 0) > 0))
    and s.e * m.vocab * m.hidden or 0
  -- If the forward uses an fp32 shard, this shard is both weight and master.
  local is_weight = comes and not away and s.e == s.w
  held.weights = (on_host and moved(kept * learns, "cpu") or kept * learns)
    + (f.offload_weights and moved(s.e * frozen / of_frozen, "cpu")
      or of_frozen_base(s, frozen, f.packed) / of_frozen)
    + (is_weight and master * learns or 0) + s.w * own + s.e * own_frozen + s.w * (f.first or 0)
  -- Whole fp32 weights are read before their masters are moved to the host.
  held.read = away and not comes and s.w * learns + s.e * frozen or 0
  local reference = f.reference and of_frozen_base(s, m.embedding + m.head + m.blocks,
    f.packed_reference) / of_frozen + s.e * (own + own_frozen) or 0
  held.reference = f.offload_weights and moved(reference, "cpu") or reference
  -- Frozen weights in the dtype of their file are memory-mapped pages of it. They are counted,
  -- since every step reads them, but they are not anonymous memory.
  held.mapped = (f.device == "cpu" and f.mapped == 0 and not comes and kept == s.e)
    and s.e * (frozen - (f.packed and f.packed.numbers or 0)) + held.reference or 0
  -- The working copies of offloaded states are in the host's memory, or pages of the file.
  local moments = f.moments * (f.moment_bytes or s.g)
  held.optimizer = moved((moments / shards + (is_weight and 0 or master)) * learns,
    f.offload_optimizer) + moments * own
  -- local_steps stores its common weights, outer momentum and send buffers next to the masters.
  local outer = (f.outer_numbers or 0) * s.g * learns / shards
  held.outer = outer
  held.optimizer = held.optimizer + (away and moved(outer, "cpu") or outer)
  -- A gradient is reduced over the ranks in a bucket, and its shard is stored like the states.
  -- Stages 2 and 3 send a bucket as soon as it is full.
  local scatters = f.zero_stage > 0 and (shards > 1 or not away)
  local bucket = scatters and math.min(c.zero_bucket, s.g * learns) or 0
  held.sent, held.waits = bucket + bucket / shards, f.zero_stage >= 2 and bucket or 0
  -- Sums on the host are in pinned memory, even if states are on disk.
  if away then moved(s.g * learns / shards, "cpu") end
  held.sends, held.last, held.rest = held.waits, 0, 0
  if f.device == "cuda" and held.waits > 0 then buckets(f, s, held, bucket) end
  held.gradients_leave = away and (f.zero_stage >= 2 or shards == 1)
  leaving(f, s, held)
  return held
end

--- Additional bytes while the optimizer's step runs: a piece of moments that are not stored in
--- fp32, copies made from masters, and a weight in the dtype of its gradient.
---@param f moonring.MemoryFacts
---@param s { a: number, e: number, w: number, g: number }
---@param held table the result of state_bytes.held
---@return number
function state_bytes.step_work(f, s, held)
  local m, c = f.model, coefficients
  local largest = math.max(m.vocab * m.hidden, m.hidden * m.width)
  -- A fused GPU kernel updates weights and moments in bf16 directly (kernels/adamw.h).
  local fused = f.device == "cuda" and f.moments == 2 and (f.moment_bytes or 2) == 2
  local work = f.moment_bytes and not held.away and not fused and math.min(c.moment_piece, largest)
    * c.moment_work[f.moment_bytes == 2 and "bf16" or "codes"] or 0
  -- Copies in the products' dtype are made from masters on the host.
  if held.read > 0 and s.e < s.w then work = math.min(c.host_piece, s.w * largest) end
  if s.w ~= s.g and held.learns > 0 and not fused then
    work = work + s.g * largest / held.gradient_shards
  end
  return work
end

return state_bytes
