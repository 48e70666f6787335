--- What a rank holds all through a step: weights, the optimizer's states, a reference; whole,
-- sharded by ZeRO or offloaded. Letters as in memory.lua; `s`: their bytes.
local coefficients = require "moonring.plan.coefficients"

---@class moonring.state_bytes
local state_bytes = {}

--- What is held all through a step, by part; what lies in the host's memory (a GPU's offload) or on
--- disk instead; and sizes that follow.
---@param f moonring.MemoryFacts
---@param s { a: number, e: number, w: number, g: number }
---@return table held
function state_bytes.held(f, s)
  local m, c = f.model, coefficients
  local learns = f.learns.embedding + f.learns.head + f.learns.blocks + f.adapter
  local frozen = m.embedding + m.head + m.blocks - (learns - f.adapter)
  local shards = f.zero_stage >= 1 and f.zero_ranks or 1
  -- Sharded under bf16, full copies are what the products want and the fp32 weight lies in the
  -- shard, with the optimizer's states.
  local master = f.precision == "bf16" and f.zero_stage >= 1 and s.w or 0
  local w = master > 0 and s.e or s.w
  local weights = w * learns + s.e * frozen
  if f.zero_stage == 3 then
    weights = ((master > 0 and not f.keeps_both and 0 or w) * learns + s.e * frozen) / shards
  end
  local held = { learns = learns, reference = f.reference
    and s.e * (m.embedding + m.head + m.blocks) / (f.zero_stage == 3 and shards or 1) or 0 }
  held.block = m.blocks / m.layers
  held.optimizer = (f.moments * s.g + master) * learns / shards
  held.gradient_shards = f.zero_stage >= 2 and shards or 1
  -- A copy in the products' dtype lives as long as its lease; ZeRO-3's gathered blocks are such
  -- copies.
  held.gathered = f.zero_stage == 3 and c.gathered_blocks * s.e * held.block or 0
  held.cast = f.zero_stage < 3 and w ~= s.e and s.e * f.learns.blocks / (f.learning_layers
    or m.layers) or 0
  held.head = (f.zero_stage == 3 or (w ~= s.e
    and f.learns.head + (m.tied and f.learns.embedding or 0) > 0)) and s.e * m.vocab * m.hidden or 0
  held.host, held.disk = 0, 0
  held.learning = (f.learns.blocks + f.adapter) / (f.learning_layers or m.layers)
  local function moved(bytes, to)
    if to == nil or (to == "cpu" and f.device == "cpu") then return bytes, false end
    local place = to == "disk" and "disk" or "host"
    held[place] = held[place] + bytes
    return 0, true
  end
  local away
  held.weights = moved(weights, f.offload_weights)
  -- Weights that nobody changes, in the dtype of their file, are its pages: every step reads them,
  -- so they are counted, and they are not anonymous.
  held.mapped = (f.device == "cpu" and f.mapped == 0 and w == s.e and f.zero_stage < 3)
    and s.e * frozen + held.reference or 0
  -- What of it is in work is the host's, or pages of the file.
  held.optimizer, away = moved(held.optimizer, f.offload_optimizer)
  -- A gradient is summed over the ranks, in a bucket, and its shard follows the states. Stages 2
  -- and 3 send it as soon as a bucket is full.
  local scatters = f.zero_stage > 0 or (away and f.device == "cuda")
  local bucket = scatters and math.min(c.zero_bucket, s.g * learns) or 0
  held.sent, held.waits = bucket + bucket / shards, f.zero_stage >= 2 and bucket or 0
  if away and f.device == "cuda" then moved(s.g * learns / shards, f.offload_optimizer) end
  held.gradients_are_away = away and f.device == "cuda" and f.zero_stage >= 2
  held.moved = moved
  return held
end

return state_bytes
