--- What one layer's attention holds and sends, in closed form: for one long document, on any number
-- of ranks, at any length. attention.cost counts the same from the plan itself, tile by tile,
-- documents and all; at a million tokens there are too many tiles to count, and the test beside
-- this holds the two together.
--
-- S tokens of an sp group, t = S / sp of a rank; heads H (Hk of keys) of d numbers. The ranks are
-- `contexts` Pr x `head_ranks` Pu: a context place has S / Pr tokens of H / Pu query heads and
-- max(1, Hk / Pu) key heads (attention/hybrid_attention.h). e: bytes of q, k, v; a: of sums. Of a
-- sliding window (nil: none), w tokens, a run of queries sees the w - 1 keys before it; a place has
-- one run, in zigzag two, and every run but the first has such a border.

---@class moonring.attention_bytes
local attention_bytes = {}

---@class moonring.AttentionBytes
---@field attention number of this rank's own tokens and of the heads at hand
---@field communication number exchanged heads; keys of others and their gradients
---@field kernel number what a GPU's kernel takes besides; 0 on a CPU
---@field kept number of attention: what recompute: selective keeps of every layer
--- of attention: what waits from the forward while what follows attention runs backward
---@field waiting number
---@field exchanged number of communication: the same

---@class moonring.AttentionFacts
---@field tokens number of the sp group
---@field sp integer
---@field heads integer
---@field kv_heads integer
---@field head_dim integer
---@field contexts integer places of the axis along which keys travel
---@field head_ranks integer places of the axis over which heads are split
---@field keys? "ring" | "windows" | "gather" how keys travel where there are several contexts
---@field contiguous? boolean whether a place owns one piece of a document, not two
---@field element_bytes integer of q, k, v
---@field sum_bytes integer of sums
---@field device "cpu" | "cuda"
---@field sequences? integer documents that a GPU's kernels take apart; 1 where absent
---@field deterministic? boolean whether a GPU's kernels give the same bits each time
---@field softcap? number the bound that scores approach; absent or 0: they have none
---@field kernels? "none" what they take is left out

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
local GATHER_SLICES, GATHER_KEYS, GATHER_SUMS = 4, 3.5, 3
-- The part of keys that ranks send on average: those that a reader sees (attention/ring_plan.h,
-- gather_plan.h).
local SEEN = { contiguous = 1 / 2, zigzag = 3 / 4 }

-- Sizes that both functions want. Heads that do not divide: the fullest rank's.
local function shape(f)
  local places, heads = f.contexts, f.head_ranks
  return {
    rows = f.tokens / places,
    queries = math.ceil(f.heads / heads),
    keys = math.max(1, math.ceil(f.kv_heads / heads)),
    exchanges = heads > 1,
    reach = f.window and f.window - 1 or math.huge,
    runs = f.contiguous and 1 or 2,
  }
end

-- Rows of keys that all-gather holds.
local function gathered(f, s) return math.min(f.tokens, s.rows + s.runs * s.reach) end

-- Keys of other context places, and their gradients.
local function travelling(f, s)
  if f.contexts == 1 then return 0 end
  local row = 2 * s.keys * f.head_dim
  if f.keys == "gather" then
    local slices = math.min(GATHER_SLICES, s.keys)
    return gathered(f, s) * row * (math.min(GATHER_KEYS, slices) * f.element_bytes + math.min(
      GATHER_SUMS, slices) * f.sum_bytes) / slices
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
  local slices = gathers and math.min(GATHER_SLICES, s.keys) or 1
  return f.head_dim * f.sum_bytes * (s.rows * s.queries + s.rows * s.queries / slices + (gathers
    and gathered(f, s) or s.rows) * 2 * s.keys / slices)
end

-- What the backward of a GPU's kernel takes beside what goes in and comes out
-- (attention/cuda_varlen_attention.cc, varlen_tile_runner.cc), of a call with M query rows of H
-- heads and N key rows of K heads of d numbers, in B sequences; D is d rounded up to 32. While the
-- kernel runs, in bf16 (LibTorch 2.11, flash_api.cpp, mha_varlen_bwd):
--
--   out's gradient in the type of sums        4 M H d of all heads at hand   (context_attention.cc)
--   it and out in 16 bit, lse turned          2 x 2 M H d, 4 M H
--   sums of dq, and of dout out               4 S (M + 128 B) H D, 4 (M + 128 B) H      S: 1;
--                                             deterministic: ceil(multiprocessors / (B H)); D
--                                             beyond 128: rounded up to 64
--   dq, dk, dv in 16 bit                      2 (M H + 2 N K) d
--   dk and dv of every query head             2 x 2 N H d, where K < H
--   keys and values that are gathered         2 x 2 N K d, of keys of others
--
-- After it its results are there in 16 bit and in the type of sums: 6 (M H + 2 N K) d. In fp32
-- (memory-efficient attention): k, v, dq, dk, dv of H heads each, lse and what goes beside it
-- padded; out's gradient times out before the kernel runs, sums of dq in tiles of 64 (d > 64: 128)
-- rows and 64 columns while it does, and dk and dv of K heads after it; out's gradient is taken as
-- it is. Where scores are written out (fp64, a softcap, heads of more than 256;
-- explicit_varlen_attention.h): three times the scores of a piece, its rows of q, k, v and out's
-- gradient as products take them, and the gradients of q, k, v; all of q, k, v where they are cast
-- to the type of sums, and the gradients in it.
local MULTIPROCESSORS = 132 -- of an H100
local SCORE_BYTES = 2 ^ 29

local function kernel(f, s)
  if f.device ~= "cuda" or f.kernels == "none" then return 0 end
  local gathers = f.contexts > 1 and f.keys == "gather"
  local slices = gathers and math.min(GATHER_SLICES, s.keys) or 1
  local d, e, a = f.head_dim, f.element_bytes, f.sum_bytes
  local queries, keys = math.ceil(s.queries / slices), math.ceil(s.keys / slices)
  -- Rows of query heads, rows of keys.
  local m, n = s.rows * queries, gathers and gathered(f, s) or s.rows
  local shared = keys < queries
  local moved = f.contexts > 1 and 2 * n * keys * d * e or 0
  local sequences = f.sequences or 1
  if e > 4 or (f.softcap or 0) ~= 0 or (e == 2 and d > 256) then
    local results = (m + 2 * n * keys) * d * a
    local side = math.sqrt(SCORE_BYTES / (3 * queries * a))
    local some, others = math.min(s.rows / sequences, side), math.min(n / sequences, side)
    -- Documents that are one batch of pieces.
    local batch = math.min(sequences, math.max(1,
      math.floor(SCORE_BYTES / (3 * queries * a * some * others))))
    local piece = batch * (2 * (some * queries + 2 * others * keys) + some * queries) * d * a
    return moved + 3 * batch * some * others * queries * a + piece + results + (e ~= a
      and s.rows * s.queries * d * a + results or 0)
  end
  if e == 4 then
    local tile = d <= 64 and 64 or 128 -- rows; 64 columns
    local tiles = sequences * queries * math.ceil(s.rows / sequences / tile) * math.ceil(d / 64)
    local while_running = math.max(m * d * 4 + 2 * m * 4, m * 4 + tiles * (tile * 64 * 4 + 16))
    return moved + (shared and 2 * n * queries * d * e or 0) + 2 * m * 4 + (
      m + 2 * n * queries) * d * e + math.max(while_running, shared and 2 * n * keys * d * e or 0)
  end
  local rounded = d <= 128 and math.ceil(d / 32) * 32 or math.ceil(d / 64) * 64
  local apart = (s.rows + 128 * sequences) * queries
  local splits = f.deterministic and math.ceil(MULTIPROCESSORS / (sequences * queries)) or 1
  local results = m + 2 * n * keys
  local running = 2 * m * d * e + 4 * m + 4 * apart * (splits * rounded + 1) + results * d * e + (
    shared and 2 * n * queries * d * e or 0)
  return (e ~= a and s.rows * s.queries * d * a or 0) + moved + math.max(running,
    results * d * (e + a))
end

--- Bytes that a rank holds at most while one layer runs backward.
---@param f moonring.AttentionFacts
---@return moonring.AttentionBytes
function attention_bytes.memory(f)
  local s, d, e, a = shape(f), f.head_dim, f.element_bytes, f.sum_bytes
  local t, packed = f.tokens / f.sp, s.queries + 2 * s.keys
  local wide = s.exchanges or e ~= a
  local inputs, out = t * d * e * (2 * f.heads + 2 * f.kv_heads), t * f.heads * d * e
  local gradients = t * (f.heads + 2 * f.kv_heads) * d * e
  local kept = s.rows * s.queries * a * (d + 1)
  if not wide then out = 0 end -- it is what was kept
  local sums = wide and s.rows * packed * d * a or gradients
  local done = sums + (e ~= a and gradients or 0)
  local exchanged, gradient_of_out = 0, 0
  if s.exchanges then
    exchanged, gradient_of_out = s.rows * packed * d * e, s.rows * s.queries * d * e
    -- Gradients of a key head come from several ranks, and travel as sums.
    local shared = f.head_ranks > f.kv_heads
    local others = t * packed * (f.head_ranks - 1) * d * (shared and a or e)
    done = sums + others + gradients + (e ~= a
      and (shared and t * (f.heads + 2 * f.kv_heads) * d * a or s.rows * packed * d * e) or 0)
  end
  local of_kernel = kernel(f, s)
  local computing, exchanging = cast(f, s) + of_kernel + travelling(f, s), s.exchanges
    and t * d * e * (f.heads - s.queries) or 0
  if computing < exchanging then of_kernel = 0 end
  local sent = gradient_of_out + math.max(computing, exchanging)
  local held = { kept = kept, waiting = inputs + out + kept, exchanged = exchanged }
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
  local s, d, e, a = shape(f), f.head_dim, f.element_bytes, f.sum_bytes
  local t, packed = f.tokens / f.sp, s.queries + 2 * s.keys
  local forward, backward = 0, 0
  if s.exchanges then
    local there = t * packed * (f.head_ranks - 1) * d
    local back = (s.rows - t) * d
    -- Then gradients of a key head come from several ranks, and travel as sums.
    local shared = f.head_ranks > f.kv_heads
    forward = (there + back * s.queries) * e
    backward = (t * s.queries * (f.head_ranks - 1) * d) * e + back * packed * (shared and a or e)
  end
  if f.contexts > 1 then
    local others = f.contexts - 1
    local seen = math.min(SEEN[f.contiguous and "contiguous" or "zigzag"] * s.rows * others,
      s.runs * s.reach * others / f.contexts)
    local sent = seen * 2 * s.keys * d
    forward, backward = forward + sent * e, backward + sent * (e + a)
  end
  return { forward = forward, backward = backward }
end

return attention_bytes
