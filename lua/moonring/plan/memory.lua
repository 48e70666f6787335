--- Predicts the memory of a training run without running it, for `moonring plan`, `moonring
-- inspect` and the check before a run. The formulas of the components are in attention_bytes.lua,
-- block_bytes.lua, activation_bytes.lua, state_bytes.lua and process_bytes.lua. Constants that
-- measurements may correct are in coefficients.lua.
--
-- Memory changes during a step, so the prediction is the maximum over a few moments:
--   logits        the forward has ended: all checkpoints (inputs of blocks) exist, and a chunk of
--                 logits with the head's gradient
--   top block     the last block's backward: still all checkpoints, but few gradients. The peak of
--                 long sequences
--   block below   the backward of the block before it: one checkpoint less, and gradients being
--                 copied to a GPU's host, if they are offloaded as they are computed
--   first block   the first block's backward: the checkpoints are freed, and all gradients exist
--                 but its own and an untied embedding's
--   embedding     on a GPU: the embedding's backward. Its gradient exists unsharded if it is then
--                 added to an fp32 master's or to shards, and one block's offloaded gradients are
--                 still being copied
--   load          fp32 weights, until their fp32 masters are moved to a GPU's host
--   step          the optimizer's step. The peak of short sequences
-- In between, checkpoints are freed and gradients are added at an even pace. With several
-- micro-batches, all gradients exist from the second one on.
--
-- On a GPU also: the workspace of attention's kernels (attention_bytes.lua), and the memory of CUDA
-- and its libraries (process_bytes.lua).
--
-- Not counted: fragmentation of allocators; and pages of memory-mapped weight files if the weights
-- are used in another dtype, since the kernel can evict such pages (`mapped` in facts.lua).
--
-- Symbols: T is the number of tokens of a micro-batch, t = T / sp that of one rank; D the hidden
-- size, I the features of the MLP that a token uses, V the vocabulary, L the number of layers.
-- Bytes per element: a of the residual stream (fp32; fp64 in fp64 runs), e of matrix products, w of
-- stored trainable weights, g of gradients.
local activation_bytes = require "moonring.plan.activation_bytes"
local attention_bytes = require "moonring.plan.attention_bytes"
local block_bytes = require "moonring.plan.block_bytes"
local coefficients = require "moonring.plan.coefficients"
local expert_share = require "moonring.plan.expert_share"
local mixing_bytes = require "moonring.plan.mixing_bytes"
local model_shape = require "moonring.plan.model_shape"
local process_bytes = require "moonring.plan.process_bytes"
local shifted_bytes = require "moonring.plan.shifted_bytes"
local state_bytes = require "moonring.plan.state_bytes"

---@class moonring.memory
---@field error number the relative error that tests allow for a prediction
---@field parts string[] the components' names, in display order
local memory = {}

---@class moonring.MemoryPrediction
---@field total number bytes of a rank at the peak moment
---@field parts table<string, number> bytes of a rank at the peak moment, by component
---@field moment string name of the peak moment: "logits", "top block", ...
---@field moments moonring.MemoryMoment[]
---@field mapped number bytes of `total` that are weights in pages of a file, not anonymous memory
---@field outer number bytes per rank of local_steps (choices/rounds.lua), wherever they are stored
---@field host number bytes per rank stored in the host's memory instead
---@field disk number bytes per rank stored on disk instead
---@field fixed { bytes: number, words: string }[] a GPU's own memory, within the component `other`

---@class moonring.MemoryMoment
---@field name string "logits", "top block", ...
---@field total number bytes
---@field parts table<string, number> bytes by component

--- The relative error that tests allow for a prediction. Nineteen runs on a CPU
-- (tests/peers/plan_vs_runs.py: SmolLM2-135M, full, freeze and LoRA, precisions, recompute,
-- offload, ranks, ZeRO; a million tokens through a small model at sp 1 and 2) had a peak of
-- anonymous memory of 0.93 to 1.06 times the prediction; mapped weights were not counted. A test
-- with a simulated GPU, which counts the bytes of tensors and kernels:
-- tests/scripts/pretend_plan_test.cc.
memory.error = 0.1

local PARTS = { "weights", "reference", "gradients", "optimizer", "checkpoints", "attention",
  "kernel", "block", "logits", "communication", "other" }

--- The components' names, in display order.
memory.parts = PARTS

--- Predicts the bytes of one rank.
---@param f moonring.MemoryFacts
---@return moonring.MemoryPrediction
function memory.predict(f)
  local m, c, t = f.model, coefficients, f.tokens / f.sp
  local s = setmetatable({ a = f.stream_bytes }, { __index = c.bytes[f.precision] })
  local attention_of = f.shifted and shifted_bytes.memory or attention_bytes.memory
  local attention = attention_of { tokens = f.tokens, sp = f.sp, heads = m.heads,
    kv_heads = m.kv_heads, head_dim = m.head_dim, value_dim = m.value_dim, contexts = f.contexts,
    head_ranks = f.head_ranks, keys = f.keys, contiguous = f.contiguous,
      window = m.windowed == m.layers and m.window or nil,
    element_bytes = s.e, sum_bytes = f.sum_bytes or math.max(4, s.e), device = f.device,
      sequences = f.sequences, deterministic = f.deterministic, softcap = m.softcap,
      kernels = f.kernels }
  -- A block's backward needs the memory of the mixer that needs most.
  local mixers = { { bytes = attention, layers = m.attending or m.layers, attends = true } }
  for _, kind in ipairs { "delta", "convolution" } do
    if m[kind] then
      mixers[#mixers + 1] = { bytes = mixing_bytes[kind](f, s), layers = m[kind].layers }
    end
  end
  local held = state_bytes.held(f, s)
  f = expert_share.rest(f, true)
  m = f.model
  local checkpoints, waiting, of_first = activation_bytes.kept(f, s, mixers, held)
  local input, hidden = t * m.hidden * s.a, t * m.hidden
  local rows = activation_bytes.row(f, s) * t
  -- `all`: the gradients that ZeRO shards, before the division by the number of shards below; those
  -- of a rank's own experts are not divided.
  local all = s.g * (held.learns + held.own * held.gradient_shards)
  local head = s.g * (m.tied and f.learns.embedding or f.learns.head)
  local carried = f.micro_batches > 1
  -- Products on a GPU add directly to the gradients of earlier micro-batches, if these are
  -- unsharded.
  local straight = carried and f.device == "cuda" and f.adapter == 0 and not held.sinks
  local fresh = straight and 0 or held.learning
  local tile, tile_gradients = block_bytes.tiled(f, s, fresh)
  local whole = f.logits == "whole" and (f.pairs and c.whole_pair_logits
    or c.whole_logits) * t * m.vocab
  local logits, chunk_rows = activation_bytes.chunk(f, s)
  if whole then logits, chunk_rows = whole, 0 end

  local moments, base = {}, process_bytes.base(f)
  local function moment(name, parts)
    parts.weights, parts.optimizer, parts.reference,
      parts.other = held.weights + (parts.weights or 0), held.optimizer, held.reference, base
    if held.gradients_leave then
      parts.gradients = (parts.leaving or 0) + (name == "load" and 0 or held.staging)
    end
    parts.gradients = f.offload_gradients and 0 or parts.gradients
    local total = 0
    for _, part in ipairs(PARTS) do
      parts[part] = parts[part] or 0
      total = total + parts[part]
    end
    parts.leaving = nil
    moments[#moments + 1] = { name = name, total = total, parts = parts }
  end
  local shards = held.gradient_shards
  local before = carried and all / shards or 0
  -- The final norm's input is kept like the input of a block, and may be among the offloaded ones.
  if f.device == "cuda" and f.activation_offload and not f.offloaded_layers then input = 0 end
  moment("logits", { gradients = math.max(before, head / shards), checkpoints = checkpoints + input,
    -- the head's new gradient, in addition to the sum of earlier ones, or before it is sharded
    logits = logits + 2 * hidden * s.a + chunk_rows * m.hidden * (
      2 * s.a + (s.e ~= s.a and s.e or 0)) + held.head
      + (((carried and not straight) or shards > 1 or held.gradients_leave) and head or 0),
    communication = head >= c.zero_bucket and held.waits > 0 and held.sent or held.waits,
      block = rows })
  -- These tensors are included if a layer keeps its whole graph.
  local full = (f.stream_copies or c.stream) * hidden * s.a + (f.recompute == "none" and 0
    or held.cast)
  -- An adapter's maps keep the normalized rows before attention, and DoRA the tensors that it
  -- scales.
  local inputs = f.adapter > 0 and (t * s.e * (m.hidden + (f.dora
    and model_shape.rows(m) or 0))) or 0
  -- With a single tile, two results are separate tensors: the gradient of the MLP's output, and the
  -- stream's gradient in addition to that of the block's result.
  local alone = f.device == "cuda" and block_bytes.tiles(f, s) == 1 and not f.stream_copies
  local twice = alone and hidden * s.a or 0
  local key_sums = f.device == "cpu" and c.key_sums * t * m.kv_heads * (m.head_dim + (m.value_dim
    or m.head_dim)) * math.max(4, s.e) or 0
  -- Gradients being reduced need memory for themselves and for their sums, unless the sums already
  -- exist from earlier micro-batches.
  local function under_way(bytes)
    return bytes * (1 + 1 / shards) - (carried and 0 or bytes / shards)
  end
  local travels = under_way(held.rest)
  -- Keeps the larger of two moments: the MLP's backward, and then attention's.
  local function greater()
    local last = table.remove(moments)
    if last.total > moments[#moments].total then moments[#moments] = last end
  end
  local function in_block(name, gradients, left, leaving)
    for i, mixer in ipairs(mixers) do
      local bytes = mixer.bytes
      local of_last = activation_bytes.of_last(f, bytes)
      moment(name, { weights = held.gathered, gradients = gradients, checkpoints = left,
        leaving = leaving,
        attention = bytes.waiting - (alone and bytes.gradient or 0) + inputs - of_last,
        communication = bytes.exchanged + held.waits + travels, block = full + tile + rows })
      if i > 1 then greater() end
      moment(name, { weights = held.gathered, gradients = gradients, checkpoints = left,
        leaving = leaving,
        attention = bytes.attention + inputs + (mixer.attends and key_sums or 0) - of_last,
        kernel = bytes.kernel, communication = bytes.communication + held.waits + travels,
        block = full + twice + tile_gradients + rows })
      greater()
    end
    if f.device == "cuda" and not f.stream_copies then
      moment(name, { weights = held.gathered, gradients = gradients, checkpoints = left,
        leaving = leaving, communication = held.waits + travels,
          block = full + twice + rows + block_bytes.entrance(f, s, fresh) })
      greater()
    end
    if held.waits == 0 then return end
    moment(name, { gradients = gradients, checkpoints = left, leaving = leaving,
      communication = held.sends + under_way(held.sent * shards / (shards + 1)),
      block = hidden * s.a + rows })
    greater()
  end
  -- A head gradient that is larger than a block's is first copied to the host by itself.
  in_block("top block", math.max(before, head / shards), waiting,
    head <= held.block_leaving and head or 0)
  if held.gradients_leave and f.depth > 1 then
    in_block("block below", 0, f.activation_offload and waiting or waiting - waiting / f.depth,
      held.block_leaving)
  end
  in_block("first block", (carried and all or all - s.g * ((m.tied and 0
    or f.learns.embedding) + held.learning)) / shards,
    math.min(waiting, of_first), held.block_leaving)
  if f.device == "cuda" and f.learns.embedding > 0 then
    local bucket = held.sent * shards / (shards + 1)
    moment("embedding", { gradients = all / shards, leaving = held.block_leaving,
      communication = held.last + math.min(bucket, held.last) * (1 + 1 / shards),
      block = hidden * (s.a + s.g) + rows,
      logits = held.sinks and held.last == 0 and s.g * m.embedding or 0 })
  end
  moment("step", { gradients = all / shards, communication = held.sent,
    block = state_bytes.step_work(f, s, held) })

  moment("load", { weights = held.read - held.weights })
  local peak = moments[1]
  for _, each in ipairs(moments) do peak = each.total > peak.total and each or peak end
  return { total = peak.total, parts = peak.parts, moment = peak.name, moments = moments,
    mapped = held.mapped, outer = held.outer, host = held.host, disk = held.disk,
    fixed = process_bytes.fixed(f) }
end

--- The most tokens of a micro-batch that fit, in multiples of `step`; 0 if not even one step fits.
---@param f moonring.MemoryFacts
---@param bytes number
---@param step integer
---@return number
function memory.longest(f, bytes, step)
  local function fits(tokens)
    local asked = setmetatable({ tokens = tokens }, { __index = f })
    return memory.predict(asked).total <= bytes
  end
  local low, high = 0, 1
  while fits(high * step) and high < 2 ^ 40 do low, high = high, 2 * high end
  while high - low > 1 do
    local middle = math.floor((low + high) / 2)
    if fits(middle * step) then low = middle else high = middle end
  end
  return low * step
end

return memory
