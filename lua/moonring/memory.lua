--- How many bytes training takes, from facts alone: the one place with the formulas. `moonring plan`, `moonring inspect` and the check before a run ask here.
--
-- What is alive changes through a step, so the prediction is the greatest of a few moments, each by part:
--   logits        forward has ended: every checkpoint is there, and a chunk of logits with the head's gradient
--   top block     the last block's backward: still every checkpoint, hardly a gradient yet. The peak of long sequences
--   first block   the first block's backward: the checkpoints are gone, all gradients but its own and an untied embedding's are there
--   step          the optimizer's. The peak of short sequences
-- In between checkpoints go and gradients come at an even pace. With several micro-batches in a step all gradients are there from the second one on.
--
-- On a GPU, besides: what attention's kernel takes (attention_bytes.lua), and what CUDA and its libraries take for themselves (`gpu` below).
--
-- Not counted: pages of mapped weight files beside weights that were made of them in another dtype, which the kernel lets go when it wants room (a process's resident size holds
-- them: `mapped` of memory_facts.lua), and what an allocator wastes.
--
-- T tokens of a micro-batch, t = T / sp on a rank; D hidden size, I features of the MLP that a token meets, V vocabulary, L layers. a: bytes of the residual stream (fp32;
-- fp64 for fp64), e: of a matrix product's element, w: of a stored weight that learns, g: of a gradient.
local attention_bytes = require "moonring.attention_bytes"

local memory = {}

--- What measurements may correct: numbers of full-length tensors, and budgets.
memory.coefficients = {
  stream = 1, -- [t, D] of a bytes in a block's backward: the gradient of what went in, in the place of that of what came out
  key_sums = 1, -- on a CPU [t, Hk, d] twice: gradients of keys and values that threads hold for themselves
  graph_stream = 2, graph_normed = 1, graph_mlp = 2, -- a layer that keeps its graph: [t, D] of a bytes, [t, D] of e bytes, [t, I] of e bytes, beside attention's
  whole_mlp = 6, -- [t, I] of e bytes where the MLP is never tiled: gate, up and their product, and the gradients of these
  whole_logits = 14, -- bytes a logit where they are made whole: in bf16, in fp32, their log-softmax, its gradient (Transformers' way: 2 + 4 + 4 + 4)
  whole_pair_logits = 18, -- the same where a reference answers meanwhile: the policy's in fp32 and their log-softmax, and the reference's 2 + 4 + 4
  -- Layers whose checkpoints stay. On the host: one in use, one on its way, one read ahead. On disk: one in use; what is read ahead is the kernel's cache.
  offloaded_layers = { cpu = 3, disk = 1 },
  gathered_blocks = 2, -- blocks whose weights are whole under ZeRO-3: one in use, one fetched ahead
  tile_bytes = 2 ^ 26, tile_rows = 512, -- what a tile of rows in work may take, and the least of them (model/blocks/row_tiles.h)
  tile_mlp = 5, tile_stream = 7, -- what a row of a tile takes in its backward: [I] and [D] of a bytes, beside its heads (model/blocks/transformer_block.cc)
  chunk_bytes = 2 ^ 26, -- of logits (objectives/log_prob.h)
  offload_staging = 7 * 2 ^ 24, -- pieces of offloaded states that are in work or on their way
  zero_bucket = 2 ^ 25, -- in which gradients and weights go to and from shards
  -- Of a process that has not begun, anonymous: on a CPU 61 MiB after its start, 20 more with a tokenizer and its data (measured), 40 that the allocator keeps between two
  -- trims (comm/heap.h).
  base = { cpu = 128e6 },
  -- A GPU's own, in bytes.
  gpu = {
    context = 500 * 2 ^ 20, -- the driver's, with the kernels that are loaded; outside of LibTorch's allocator (assumed: none was measured yet)
    cublas = 2 ^ 25, -- a workspace for each handle and stream (LibTorch 2.11, CublasHandlePool.cpp), here one of each: 32 MiB on Hopper and Blackwell, 8.1 MiB before
    nccl = 2 ^ 28, -- buffers of each group that sends: the world, and that of a sequence (assumed)
    pages = 3 * 20 * 2 ^ 20, -- the last page of each of the allocator's pools, 20 MiB where segments grow: for computing, copies to the host, and collectives
  },
}

local GPU_WORDS = { { "context", "CUDA's context, outside of the allocator" }, { "cublas", "cuBLAS's workspace" }, { "nccl", "NCCL's buffers, outside of the allocator" },
  { "pages", "pages of the allocator that are filled in part" } }

--- What a GPU takes for itself: a list of { bytes, words }; nothing on a CPU. (CUDA's context is in nobody's prediction who measured free memory with it there.)
function memory.fixed(f)
  if f.device ~= "cuda" or f.base then return {} end
  local c = memory.coefficients.gpu
  local counts = { context = f.context_is_there and 0 or 1, cublas = 1, nccl = (f.ranks or 1) == 1 and 0 or f.sp > 1 and 2 or 1, pages = 1 }
  local list = {}
  for _, row in ipairs(GPU_WORDS) do
    if counts[row[1]] > 0 then list[#list + 1] = { bytes = counts[row[1]] * c[row[1]], words = row[2] } end
  end
  return list
end

local function base_of(f)
  if f.base or f.device ~= "cuda" then return f.base or memory.coefficients.base[f.device] end
  local bytes = 0
  for _, each in ipairs(memory.fixed(f)) do bytes = bytes + each.bytes end
  return bytes
end

--- The relative error that a prediction is held to. Nineteen runs on a CPU (tests/peers/plan_vs_runs.py: SmolLM2-135M, full, freeze and LoRA, precisions, recompute, offload, ranks,
-- ZeRO; a million tokens through a small model at sp 1 and 2) had a peak of anonymous memory of 0.93 to 1.06 times it, mapped weights apart.
memory.error = 0.1

local SIZES = {
  fp32 = { e = 4, w = 4, a = 4, g = 4 },
  bf16 = { e = 2, w = 4, a = 4, g = 4 },
  pure_bf16 = { e = 2, w = 2, a = 4, g = 4 },
  fp64 = { e = 8, w = 8, a = 8, g = 8 },
}

local PARTS = { "weights", "reference", "gradients", "optimizer", "checkpoints", "attention", "kernel", "block", "logits", "communication", "other" }

--- The parts' names, in the order in which they are told.
memory.parts = PARTS

--- The parts of a model of Llama's shape, in parameters, where there is no checkpoint to ask: { layers, hidden, width, heads, kv_heads, head_dim, vocab, tied, bias }.
function memory.shape(m)
  local rows = (m.heads + 2 * m.kv_heads) * m.head_dim
  local block = m.hidden * rows + m.heads * m.head_dim * m.hidden + (m.bias and rows or 0) + 3 * m.hidden * m.width + 2 * m.hidden
  m.embedding = m.vocab * m.hidden
  m.head, m.blocks = m.tied and 0 or m.embedding, m.layers * block + m.hidden
  return m
end

-- What follows attention in a block, in work backward: a tile of rows; the gradients of its weights, summed over tiles in g bytes beside those of the last one.
local function tiled(f, s, learning)
  local m, c, t = f.model, memory.coefficients, f.tokens / f.sp
  if f.mlp == "whole" then return c.whole_mlp * t * m.width * s.e, s.e * learning end
  local row = s.a * (c.tile_mlp * m.width + c.tile_stream * m.hidden + m.heads * m.head_dim)
  if f.recompute == "none" then return 0, s.e * learning end -- the whole graph is there already
  local most = f.tile_bytes == 0 and t or math.max(c.tile_rows * (m.tile_factor or 1), (f.tile_bytes or c.tile_bytes) / row)
  local tiles = math.max(1, math.ceil(t / most))
  return t / tiles * row, (tiles > 1 and s.g + s.e or s.e) * learning
end

-- What is held all through a step, by part; what lies in the host's memory (a GPU's offload) or on disk instead; and sizes that follow.
local function states(f, s)
  local m, c = f.model, memory.coefficients
  local learns = f.learns.embedding + f.learns.head + f.learns.blocks + f.adapter
  local frozen = m.embedding + m.head + m.blocks - (learns - f.adapter)
  local shards = f.zero_stage >= 1 and f.zero_ranks or 1
  -- Sharded under bf16, full copies are what the products want and the fp32 weight lies in the shard, with the optimizer's states.
  local master = f.precision == "bf16" and f.zero_stage >= 1 and s.w or 0
  local w = master > 0 and s.e or s.w
  local weights = w * learns + s.e * frozen
  if f.zero_stage == 3 then weights = ((master > 0 and not f.keeps_both and 0 or w) * learns + s.e * frozen) / shards end
  local held = { learns = learns, reference = f.reference and s.e * (m.embedding + m.head + m.blocks) / (f.zero_stage == 3 and shards or 1) or 0 }
  held.block = m.blocks / m.layers
  held.optimizer = ((f.optimizer == "sgd" and 0 or 2 * s.g) + master) * learns / shards
  held.gradient_shards = f.zero_stage >= 2 and shards or 1
  -- A copy in the products' dtype lives as long as its lease; ZeRO-3's gathered blocks are such copies.
  held.gathered = f.zero_stage == 3 and c.gathered_blocks * s.e * held.block or 0
  held.cast = f.zero_stage < 3 and w ~= s.e and s.e * f.learns.blocks / m.layers or 0
  held.head = (f.zero_stage == 3 or (w ~= s.e and f.learns.head + (m.tied and f.learns.embedding or 0) > 0)) and s.e * m.vocab * m.hidden or 0
  held.host, held.disk = 0, 0
  local function moved(bytes, to)
    if to == nil or (to == "cpu" and f.device == "cpu") then return bytes, false end
    local place = to == "disk" and "disk" or "host"
    held[place] = held[place] + bytes
    return 0, true
  end
  local away
  held.weights = moved(weights, f.offload_weights)
  -- Weights that nobody changes, in the dtype of their file, are its pages: every step reads them, so they are counted, and they are not anonymous.
  held.mapped = (f.device == "cpu" and f.mapped == 0 and w == s.e and f.zero_stage < 3) and s.e * frozen + held.reference or 0
  held.optimizer, away = moved(held.optimizer, f.offload_optimizer)
  if away then held.optimizer = f.device == "cpu" and 0 or math.min(c.offload_staging, held.host + held.disk) end -- on a CPU the pieces in work are pages of the file
  held.moved = moved
  return held
end

-- How many layers keep their graph, and how many attention's result.
local function spending(f)
  local whole = f.recompute == "none" and f.depth or math.min(f.whole_layers or 0, f.depth)
  return whole, f.recompute == "selective" and f.depth - whole or math.min(f.selective_layers or 0, f.depth - whole)
end

-- The layers' share that lives from forward to backward: inputs of blocks, what selective keeps, the whole graph. Then what the first layer keeps, and what of its own
-- work the last one has kept already.
local function kept(f, s, attention, held)
  local m, c, t = f.model, memory.coefficients, f.tokens / f.sp
  local whole, selective = spending(f)
  local input = t * m.hidden * s.a
  local graph = t * (m.hidden * (c.graph_stream * s.a + c.graph_normed * s.e) + (c.graph_mlp * m.width + (m.heads + 2 * m.kv_heads) * m.head_dim) * s.e) + attention.kept
  local all = (f.depth - whole) * input + selective * attention.kept
  if select(2, held.moved(0, f.activation_offload)) then
    local stay = math.min(f.depth - whole, c.offloaded_layers[f.activation_offload]) / math.max(f.depth - whole, 1) * all
    held.moved(all - stay, f.activation_offload)
    all = stay
  end
  local of_first = whole > 0 and graph or input + (selective > 0 and attention.kept or 0)
  local of_last = whole == f.depth and attention.waiting or (whole + selective == f.depth and attention.kept) or 0
  return all + whole * graph, of_first, of_last
end

--- Bytes of a rank. `f`:
--   model     { layers, hidden, width, heads, kv_heads, head_dim, vocab, tied, window, windowed, embedding, head, blocks } (sizes; window: of `windowed` of the layers; then parameters)
--   learns    { embedding, head, blocks }: of these parameters those that learn; `adapter`: parameters of an adapter beside them
--   depth     layers whose input a backward needs: all, but for those below the first that learns
--   tokens    of a micro-batch, over the sp group; micro_batches of them in a step; sp, zero_ranks (over which states are sharded), zero_stage
--   contexts, head_ranks, keys, contiguous   what the strategy makes of sp (attention_bytes.lua)
--   whole_layers, selective_layers   that keep more than `recompute` says (nil: none)
--   precision, recompute, optimizer, activation_offload, offload_optimizer (nil, "cpu" or "disk"), device ("cpu" or "cuda"), reference (whether another model is held), tile_bytes
--             (nil: the coefficient; 0: no tiles)
--   mapped    bytes of mapped files beside weights made of them in another dtype; 0: the weights are their file's pages themselves
--   sequences, deterministic, context_is_there   on a GPU: documents of a micro-batch (nil: 1), whether its kernels are deterministic, whether CUDA's context is taken already
--   stream_bytes, stream_copies, sum_bytes, logits = "whole", mlp = "whole", offload_weights, offload_gradients, keeps_both (bf16 shards beside fp32 ones), pairs,
--             kernels = "none" (attention's workspace is left out), base   other programs' ways
-- Returns { total, parts, moment, moments = { { name, total, parts } }, mapped, host, disk, fixed (memory.fixed, of parts.other) }; the first parts and total are those of the greatest moment; mapped: of the weights.
function memory.predict(f)
  local m, c, t = f.model, memory.coefficients, f.tokens / f.sp
  local s = setmetatable({ a = f.stream_bytes }, { __index = SIZES[f.precision] })
  local attention = attention_bytes.memory { tokens = f.tokens, sp = f.sp, heads = m.heads, kv_heads = m.kv_heads, head_dim = m.head_dim, contexts = f.contexts,
    head_ranks = f.head_ranks, keys = f.keys, contiguous = f.contiguous, window = m.windowed == m.layers and m.window or nil,
    element_bytes = s.e, sum_bytes = f.sum_bytes or math.max(4, s.e), device = f.device, sequences = f.sequences, deterministic = f.deterministic, softcap = m.softcap, kernels = f.kernels }
  local held = states(f, s)
  local checkpoints, of_first, of_last = kept(f, s, attention, held)
  local input, hidden = t * m.hidden * s.a, t * m.hidden
  local all, head = s.g * held.learns, s.g * (m.tied and f.learns.embedding or f.learns.head)
  local learning = (f.learns.blocks + f.adapter) / m.layers
  local tile, tile_gradients = tiled(f, s, learning)
  local carried = f.micro_batches > 1
  local whole = f.logits == "whole" and (f.pairs and c.whole_pair_logits or c.whole_logits) * t * m.vocab
  local logits = whole or f.logits == "none" and 0 or math.min(c.chunk_bytes, t * m.vocab * s.a) * (1 + (s.e ~= s.a and s.e / s.a or 0))

  local moments, base = {}, base_of(f)
  local function moment(name, parts)
    parts.weights, parts.optimizer, parts.reference, parts.other = held.weights + (parts.weights or 0), held.optimizer, held.reference, base
    parts.gradients = f.offload_gradients and 0 or parts.gradients
    parts.communication = (parts.communication or 0) + (f.zero_stage > 0 and f.zero_ranks > 1 and c.zero_bucket or 0)
    local total = 0
    for _, part in ipairs(PARTS) do
      parts[part] = parts[part] or 0
      total = total + parts[part]
    end
    moments[#moments + 1] = { name = name, total = total, parts = parts }
  end
  local shards = held.gradient_shards
  local before = carried and all / shards or 0
  moment("logits", { gradients = math.max(before, head / shards), checkpoints = checkpoints + input,
    -- the head's fresh gradient beside the sum of the earlier ones, or before it is sharded
    logits = logits + 2 * hidden * s.a + held.head + ((carried or shards > 1) and head or 0) })
  local full = (f.stream_copies or c.stream) * hidden * s.a + held.cast
  local key_sums = f.device == "cpu" and c.key_sums * t * 2 * m.kv_heads * m.head_dim * math.max(4, s.e) or 0
  -- First what follows attention, then attention; the greater of the two.
  local function in_block(name, gradients, left)
    moment(name, { weights = held.gathered, gradients = gradients, checkpoints = left, attention = attention.waiting - of_last, communication = attention.exchanged,
      block = full + tile + tile_gradients })
    moment(name, { weights = held.gathered, gradients = gradients, checkpoints = left, attention = attention.attention + key_sums - of_last,
      kernel = attention.kernel, communication = attention.communication,
      block = full + s.e * learning })
    local last = table.remove(moments)
    if last.total > moments[#moments].total then moments[#moments] = last end
  end
  in_block("top block", math.max(before, head / shards), checkpoints)
  in_block("first block", (carried and all or all - s.g * ((m.tied and 0 or f.learns.embedding) + learning)) / shards,
    math.min(checkpoints, of_first))
  moment("step", { gradients = all / shards, block = s.w ~= s.g and s.g * held.learns > 0 and s.g * math.max(m.vocab * m.hidden, m.hidden * m.width) / math.max(shards, 1) or 0 })

  local peak = moments[1]
  for _, each in ipairs(moments) do peak = each.total > peak.total and each or peak end
  return { total = peak.total, parts = peak.parts, moment = peak.name, moments = moments, mapped = held.mapped, host = held.host, disk = held.disk, fixed = memory.fixed(f) }
end

--- The most tokens (of a micro-batch, over the sp group) that fit in `bytes`, in steps of `step`; 0 where not even one step does. Memory grows with the tokens.
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
