--- What one layer's attention holds and sends, in closed form: for one long document, on any number
-- of ranks, at any length. attention.cost counts the same from the plan itself, tile by tile,
-- documents and all; at a million tokens there are too many tiles to count, and the test beside
-- this holds the two together.
--
-- S tokens of an sp group, t = S / sp of a rank; heads H (Hk of keys) of d numbers, values of v.
-- The ranks are `contexts` Pr x `head_ranks` Pu: a context place has S / Pr tokens of H / Pu query
-- heads and max(1, Hk / Pu) key heads (attention/hybrid_attention.h). e: bytes of q, k, v; a: of
-- sums. Of a sliding window (nil: none), w tokens, a run of queries sees the w - 1 keys before it;
-- a place has one run, in zigzag two, and every run but the first has such a border.
local attention_shape = require "moonring.plan.attention_shape"
local kernel_bytes = require "moonring.plan.kernel_bytes"

---@class moonring.attention_bytes
local attention_bytes = {}

---@class moonring.AttentionBytes
---@field attention number of this rank's own tokens and of the heads at hand
---@field communication number exchanged heads; keys of others and their gradients
---@field kernel number what a GPU's kernel takes besides; 0 on a CPU
---@field kept number of attention: what recompute: selective keeps of every layer
--- of attention: what waits from the forward while what follows attention runs backward
---@field waiting number
---@field given number of it: what goes on from attention, where that is not what was kept
---@field gradient number of it: that of what attention gave, of this rank's own tokens
---@field exchanged number of communication: the same

-- Buffers of keys and values of others that are alive at a time, each of a context place's own size
-- (attention/ring_plan.h): one in use, one under way, and a copy of what is sent where that is not
-- in one piece; of their gradients one being summed and one going home. With windows also the one
-- that came from another window.
local RING = { keys = 2, copies = 0.75, sums = 2 }
local RING_OF_WINDOWS = { keys = 3, copies = 1.75, sums = 3 }
-- all-gather (attention/gather_plan.h) takes a place's key heads in slices
-- (attention/context_attention.h has how many). Alive are, in slices of all keys: those in use and
-- those under way with the copies that they are sent from, and the gradients that are summed, go
-- home and are received.
local GATHER_KEYS, GATHER_SUMS = 3.5, 3
-- The part of keys that ranks send on average: those that a reader sees (attention/ring_plan.h,
-- gather_plan.h).
local SEEN = { contiguous = 1 / 2, zigzag = 3 / 4 }

-- Keys of other context places, and their gradients.
local function travelling(f, s)
  if f.contexts == 1 then return 0 end
  local row = s.keys * (s.d + s.v)
  if f.keys == "gather" then
    local slices = math.min(attention_shape.slices, s.keys)
    local keys, sums = math.min(GATHER_KEYS, slices), math.min(GATHER_SUMS, slices)
    return attention_shape.gathered(f, s) * row * (keys * f.element_bytes + sums * f.sum_bytes)
      / slices
  end
  local others = f.contexts - 1
  -- Others whose keys queries here see; who sees those of this place may be more.
  local seen = math.min(others, s.runs * math.ceil(s.runs * s.reach / s.rows))
  local ring = f.keys == "windows" and RING_OF_WINDOWS or RING
  local keys = math.min(ring.keys, seen) + (f.contiguous and 0 or ring.copies)
  return math.min(s.rows, s.reach) * row * (keys * f.element_bytes + math.min(ring.sums,
    others) * f.sum_bytes)
end

-- A CPU's kernels compute in the type of sums: out's gradient, and the queries, keys and values of
-- the tile in work, are cast. A GPU's take them as they are.
local function cast(f, s)
  if f.device ~= "cpu" or f.element_bytes == f.sum_bytes then return 0 end
  local gathers = f.contexts > 1 and f.keys == "gather"
  local slices = gathers and math.min(attention_shape.slices, s.keys) or 1
  return f.sum_bytes * (s.rows * s.queries * s.v + s.rows * s.queries * s.d / slices + (gathers
    and attention_shape.gathered(f, s) or s.rows) * s.keys * (s.d + s.v) / slices)
end

--- Bytes that a rank holds at most while one layer runs backward.
---@param f moonring.AttentionFacts
---@return moonring.AttentionBytes
function attention_bytes.memory(f)
  local s, e, a = attention_shape.of(f), f.element_bytes, f.sum_bytes
  local d, v = s.d, s.v
  -- Numbers of a token: of the heads at hand, of all.
  local t, packed = f.tokens / f.sp, s.queries * d + s.keys * (d + v)
  local all = f.heads * d + f.kv_heads * (d + v)
  local at_once = attention_shape.at_once(f)
  local wide = s.exchanges or (e ~= a and not at_once)
  local out, gradients = t * f.heads * v * e, t * all * e
  local inputs = gradients + out
  local kept = s.rows * s.queries * (v * (at_once and e or a) + a)
  if not wide then out = 0 end -- it is what was kept
  local sums = wide and s.rows * packed * (at_once and e or a) or gradients
  -- Gradients of keys that are gathered are sums, of others and of the rank's own.
  local gathers = at_once and f.contexts > 1
  if gathers then sums = s.rows * (s.queries * d * e + s.keys * (d + v) * a) end
  if kernel_bytes.in_place(f, s) then sums, gradients = 0, 0 end
  local done = sums + (e ~= a and (gathers or not at_once) and gradients or 0)
  local exchanged, gradient_of_out = 0, 0
  if s.exchanges then
    exchanged, gradient_of_out = s.rows * packed * e, s.rows * s.queries * v * e
    -- Gradients of a key head come from several ranks, and travel as sums.
    local shared = f.head_ranks > f.kv_heads
    local others = t * packed * (f.head_ranks - 1) * (shared and a or e)
    -- What one call made is put into a buffer in which it is sent.
    local buffer = at_once and s.rows * packed * (shared and a or e) or sums
    done = buffer + others + gradients + (e ~= a and (shared or not at_once)
      and (shared and t * all * a or s.rows * packed * e) or 0)
  end
  local of_kernel = kernel_bytes.of(f, s)
  local computing, exchanging = cast(f, s) + of_kernel + travelling(f, s), s.exchanges
    and t * v * e * (f.heads - s.queries) or 0
  if computing < exchanging then of_kernel = 0 end
  local sent = gradient_of_out + math.max(computing, exchanging)
  local held = { kept = kept, waiting = inputs + out + kept, exchanged = exchanged, given = out,
    gradient = t * f.heads * v * e }
  if sums + sent >= done then
    held.attention, held.kernel = held.waiting + sums + cast(f, s), of_kernel
    held.communication = exchanged + sent - cast(f, s) - of_kernel
  else
    held.attention, held.kernel = held.waiting + sums + gradients, 0
    held.communication = exchanged + done - sums - gradients
  end
  return held
end

--- Bytes that a rank sends in one layer, on average over the ranks.
---@param f moonring.AttentionFacts
---@return { forward: number, backward: number }
function attention_bytes.traffic(f)
  local s, e, a = attention_shape.of(f), f.element_bytes, f.sum_bytes
  local t, packed = f.tokens / f.sp, s.queries * s.d + s.keys * (s.d + s.v)
  local forward, backward = 0, 0
  if s.exchanges then
    local there, back = t * packed * (f.head_ranks - 1), s.rows - t
    -- Then gradients of a key head come from several ranks, and travel as sums.
    local shared = f.head_ranks > f.kv_heads
    forward = (there + back * s.queries * s.v) * e
    backward = t * s.queries * (f.head_ranks - 1) * s.v * e + back * packed * (shared and a or e)
  end
  if f.contexts > 1 then
    local others = f.contexts - 1
    local seen = math.min(SEEN[f.contiguous and "contiguous" or "zigzag"] * s.rows * others,
      s.runs * s.reach * others / f.contexts)
    local sent = seen * s.keys * (s.d + s.v)
    forward, backward = forward + sent * e, backward + sent * (e + a)
  end
  return { forward = forward, backward = backward }
end

return attention_bytes
