--- Workspace of a GPU's attention kernels in the backward, in addition to their inputs and outputs
-- (attention/kernels/cuda_varlen_attention.cc, varlen_tile_runner.cc). A call has M query rows of H
-- heads and N key rows of K heads, of size d, in B sequences; D is d rounded up to 32. If values
-- and keys have different sizes, d is the larger one: both are padded to d, and the padded copies
-- are counted here. Bytes while the kernel runs, in bf16 (LibTorch 2.11, flash_api.cpp,
-- mha_varlen_bwd):
--
--   out's gradient and out; transposed lse    2 x 2 M H d, 4 M H
--   sums of dq, and of dout x out             4 S (M + 128 B) H D, 4 (M + 128 B) H      S: 1;
--                                             deterministic: ceil(multiprocessors / (B H)); D
--                                             beyond 128: rounded up to 64
--   dq, dk, dv in 16 bit                      2 (M H + 2 N K) d
--   dk and dv of every query head             2 x 2 N H d, if K < H
--   gathered keys and values                  2 x 2 N K d, of other ranks' keys
--
-- After the kernel its results exist in 16 bits and in the dtype of sums: 6 (M H + 2 N K) d. If one
-- call does everything (attention_shape.at_once), the output and its gradient need no copies, and
-- the results are the gradients, which attention_bytes.lua counts. Heads are then processed in
-- slices (varlen_tile_runner.h), so the sums of dq, and dk and dv of every query head, are those of
-- one slice. With several slices there are also the results, and contiguous copies of the output
-- and its gradient.
--
-- In fp32 (memory-efficient attention): k, v, dq, dk, dv of H heads each; lse, and a padded tensor
-- of the same size; the product of the output and its gradient before the kernel runs; sums of dq
-- in tiles of 64 (d > 64: 128) rows and 64 columns while it runs; dk and dv of K heads after it.
-- The output's gradient needs no copy.
--
-- If scores are materialized in fp32 or fp64 (fp64, a softcap; explicit_varlen_attention.h): three
-- times the scores of a piece; the piece's rows of q, k, v and of the output's gradient in the
-- layout of the matrix product; the gradients of q, k, v.
--
-- If scores are materialized in 16 bits (a softcap, heads of more than 256;
-- strip_varlen_attention.h): twice the scores of a strip in fp32; the strip's rows of dq in fp32
-- and, if query heads share keys, of q and of the output's gradient. With several documents at a
-- time also keys, values and their gradients of one document in the layout of the matrix product.
-- The gradients of q, k, v in fp32 are the results, which attention_bytes.lua counts if one call
-- does everything.
local attention_shape = require "moonring.plan.attention_shape"

---@class moonring.kernel_bytes
local kernel_bytes = {}

local MULTIPROCESSORS = 132 -- of an H100
local SCORE_BYTES = 2 ^ 29
local WORKSPACE_BYTES = 2 ^ 30 -- attention/kernels/varlen_tile_runner.h
local STRIP_KEYS, STRIP_ROWS = 8192, 64 -- attention/kernels/strip_plan.h: at most; a multiple of

-- The number of slices into which the heads of one call are divided.
local function parts_of(m, d, keys)
  return math.min(math.max(math.ceil(8 * m * d / WORKSPACE_BYTES), 1), keys)
end

--- Whether the kernel writes gradients over the queries, keys and values that they belong to, slice
--- by slice. This is possible if those are the rank's own rows, as autograd has them.
---@param f moonring.AttentionFacts
---@param s moonring.AttentionShape
---@return boolean
function kernel_bytes.in_place(f, s)
  return attention_shape.at_once(f) and f.contexts == 1 and not s.exchanges
    and f.kernels ~= "none" and parts_of(s.rows * s.queries, math.max(s.d, s.v), s.keys) > 1
end

-- Workspace if scores are materialized in 16 bits: `queries` heads of s.rows rows, and `keys` heads
-- of n rows.
local function of_strips(f, s, queries, keys, n)
  local d, sequences, m = math.max(s.d, s.v), f.sequences or 1, s.rows * queries
  local rows, others = s.rows / sequences, n / sequences
  local pairs_at_once = SCORE_BYTES / (2 * 4 * queries)
  local batch = math.min(sequences, math.floor(pairs_at_once / (rows * others)))
  if batch < 1 then
    batch, others = 1, math.min(others, STRIP_KEYS)
    rows = math.min(rows, math.max(1, math.floor(pairs_at_once / others / STRIP_ROWS)) * STRIP_ROWS)
  end
  local shared = keys < queries
  local of_rows = batch * rows * queries * d * (4 + (shared and 2 * 2 or 0))
  local of_keys = batch > 1 and batch * others * keys * d * (2 * 2 + 4) or 0
  local results = f.contexts > 1 and (m + 2 * n * keys) * d * 4 or 0
  return math.max(m * d * 4, 2 * 4 * batch * rows * others * queries + of_rows + of_keys) + results
end

--- Workspace bytes; 0 on a CPU.
---@param f moonring.AttentionFacts
---@param s moonring.AttentionShape
---@return number
function kernel_bytes.of(f, s)
  if f.device ~= "cuda" or f.kernels == "none" then return 0 end
  local gathers = f.contexts > 1 and f.keys == "gather"
  local slices = gathers and math.min(attention_shape.slices, s.keys) or 1
  local d, e, a = math.max(s.d, s.v), f.element_bytes, f.sum_bytes
  local queries, keys = math.ceil(s.queries / slices), math.ceil(s.keys / slices)
  -- m: rows times query heads; n: rows of keys.
  local m, n = s.rows * queries, gathers and attention_shape.gathered(f, s) or s.rows
  local shared = keys < queries
  local moved = f.contexts > 1 and n * keys * (s.d + s.v) * e or 0
  local by_strips = e == 2 and ((f.softcap or 0) ~= 0 or d > 256)
  -- Keys and values of different sizes are padded, which needs copies.
  if e == 2 and s.d ~= s.v and not by_strips then
    moved = moved + (s.d < s.v and m + n * keys or n * keys + 2 * m) * d * e
  end
  local sequences = f.sequences or 1
  if by_strips then return moved + of_strips(f, s, queries, keys, n) end
  if e > 4 or (f.softcap or 0) ~= 0 then
    local side = math.sqrt(SCORE_BYTES / (3 * queries * a))
    local some, others = math.min(s.rows / sequences, side), math.min(n / sequences, side)
    -- Documents that are processed together as one batch of pieces.
    local batch = math.min(sequences, math.max(1,
      math.floor(SCORE_BYTES / (3 * queries * a * some * others))))
    local piece = batch * (2 * (some * queries + 2 * others * keys) + some * queries) * d * a
    return moved + 3 * batch * some * others * queries * a + piece + (m + 2 * n * keys) * d * a
  end
  if e == 4 then
    local tile = d <= 64 and 64 or 128 -- rows; 64 columns
    local tiles = sequences * queries * math.ceil(s.rows / sequences / tile) * math.ceil(d / 64)
    local while_running = math.max(m * d * 4 + 2 * m * 4, m * 4 + tiles * (tile * 64 * 4 + 16))
    return moved + (shared and 2 * n * queries * d * e or 0) + 2 * m * 4 + (
      m + 2 * n * queries) * d * e + math.max(while_running, shared and 2 * n * keys * d * e or 0)
  end
  local rounded = d <= 128 and math.ceil(d / 32) * 32 or math.ceil(d / 64) * 64
  if attention_shape.at_once(f) then
    local parts = parts_of(m, d, keys)
    local most = math.ceil(keys / parts) * queries / keys -- query heads of a slice
    local of_slice = (s.rows + 128 * sequences) * most
    local some = f.deterministic and math.ceil(MULTIPROCESSORS / (sequences * most)) or 1
    return moved + 4 * of_slice * (some * rounded + 1) + (shared and 2 * n * most * d * e or 0)
      + (parts > 1 and (3 * s.rows * most + 2 * n * math.ceil(keys / parts)) * d * e or 0)
  end
  local apart = (s.rows + 128 * sequences) * queries
  local splits = f.deterministic and math.ceil(MULTIPROCESSORS / (sequences * queries)) or 1
  local results = m + 2 * n * keys
  local running = 2 * m * d * e + 4 * m + 4 * apart * (splits * rounded + 1) + results * d * e + (
    shared and 2 * n * queries * d * e or 0)
  return moved + math.max(running, results * d * (e + a))
end

return kernel_bytes
