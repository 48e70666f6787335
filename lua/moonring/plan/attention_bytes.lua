--- Closed formulas for the memory of one layer's attention, for one long document on any number of
-- ranks, split into components. The function attention.cost counts the peak of a CPU's kernels from
-- the plan; a test checks that both agree.
--
-- Symbols. An sp group has S tokens, one rank t = S / sp. The model has H query heads and Hk key
-- heads of size d, and values of size v. The ranks form a grid of Pr `contexts` x Pu `head_ranks`.
-- The ranks of one context process S / Pr tokens, and each of them its share of the heads
-- (attention/kernels/head_split.h). e: bytes per element of q, k,
-- v; a: bytes per element of sums. With a sliding window of w tokens (nil: none), consecutive
-- queries attend to the w - 1 keys before them. A context has one run of consecutive queries, or
-- two with zigzag; each run except the first needs such keys.
local attention_shape = require "moonring.plan.attention_shape"
local kernel_bytes = require "moonring.plan.kernel_bytes"

---@class moonring.attention_bytes
local attention_bytes = {}

--- Bytes of one rank in the backward of one layer's attention, by component.
---@class moonring.AttentionBytes
---@field attention number of this rank's tokens and of the heads that it computes
---@field communication number exchanged heads; keys received from other ranks, and their gradients
---@field kernel number workspace of a GPU's kernel; 0 on a CPU
---@field kept number part of `attention`: what every layer keeps with recompute: selective
--- `waiting`, part of `attention`: kept from the forward while the rest of the block runs backward.
---@field waiting number
---@field given number part of `waiting`: attention's output, if it is not the kept tensor itself
---@field gradient number part of `waiting`: the gradient of attention's output on this rank
---@field exchanged number part of communication: exchanged heads

-- Ring attention: buffers for keys and values of other ranks that exist at the same time. Each has
-- the size of one context (attention/strategy/ring_plan.h): one in use, one being received, and a
-- copy of the sent one if it is not contiguous. For gradients: one being summed and one being sent
-- back. With sliding windows there is one more.
local RING = { keys = 2, copies = 0.75, sums = 2 }
local RING_OF_WINDOWS = { keys = 3, copies = 1.75, sums = 3 }
-- All-gather attention (attention/strategy/gather_plan.h) processes the key heads in slices
-- (attention/strategy/context_attention.h has their number). The numbers count slices of all keys
-- that exist at the same time: those in use and those being received, with their send copies; and
-- gradients that are summed, sent back and received.
local GATHER_KEYS, GATHER_SUMS = 3.5, 3

-- Bytes of keys and values received from other contexts, and of their gradients.
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
  -- The number of contexts whose keys this rank's queries attend to.
  local seen = math.min(others, s.runs * math.ceil(s.runs * s.reach / s.rows))
  local ring = f.keys == "windows" and RING_OF_WINDOWS or RING
  local keys = math.min(ring.keys, seen) + (f.contiguous and 0 or ring.copies)
  return math.min(s.rows, s.reach) * row * (keys * f.element_bytes + math.min(ring.sums,
    others) * f.sum_bytes)
end

-- Bytes of casts. A CPU's kernels compute in the dtype of sums, so the gradient of attention's
-- output and the queries, keys and values of the current tile are cast. A GPU's kernels need no
-- casts.
local function cast(f, s)
  if f.device ~= "cpu" or f.element_bytes == f.sum_bytes then return 0 end
  local gathers = f.contexts > 1 and f.keys == "gather"
  local slices = gathers and math.min(attention_shape.slices, s.keys) or 1
  return f.sum_bytes * (s.rows * s.queries * s.v + s.rows * s.queries * s.d / slices + (gathers
    and attention_shape.gathered(f, s) or s.rows) * s.keys * (s.d + s.v) / slices)
end

--- Peak bytes of a rank while one layer runs backward.
---@param f moonring.AttentionFacts
---@return moonring.AttentionBytes
function attention_bytes.memory(f)
  local s, e, a = attention_shape.of(f), f.element_bytes, f.sum_bytes
  local d, v = s.d, s.v
  -- Numbers per token: `packed` in the heads that this rank computes, `all` in all heads.
  local t, packed = f.tokens / f.sp, s.queries * d + s.keys * (d + v)
  local all = f.heads * d + f.kv_heads * (d + v)
  local at_once = attention_shape.at_once(f)
  local wide = s.exchanges or (e ~= a and not at_once)
  local out, gradients = t * f.heads * v * e, t * all * e
  local inputs = gradients + out
  local kept = s.rows * s.queries * (v * (at_once and e or a) + a)
  if not wide then out = 0 end -- it is the kept tensor
  local sums = wide and s.rows * packed * (at_once and e or a) or gradients
  -- The gradients of gathered keys, other ranks' and the rank's own, are sums.
  local gathers = at_once and f.contexts > 1
  if gathers then sums = s.rows * (s.queries * d * e + s.keys * (d + v) * a) end
  if kernel_bytes.in_place(f, s) then sums, gradients = 0, 0 end
  local done = sums + (e ~= a and (gathers or not at_once) and gradients or 0)
  local exchanged, gradient_of_out = 0, 0
  if s.exchanges then
    exchanged, gradient_of_out = s.rows * packed * e, s.rows * s.queries * v * e
    -- Gradients of key heads that several ranks compute are sent as sums.
    local shared = s.shares_keys
    local others = t * packed * (f.head_ranks - 1) * (shared and a or e)
    -- The results of a single call are copied into a send buffer.
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

return attention_bytes
