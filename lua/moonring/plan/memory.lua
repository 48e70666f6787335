--- How many bytes training takes, from facts alone: the one place with the formulas. `moonring
-- plan`, `moonring inspect` and the check before a run ask here.
--
-- What is alive changes through a step, so the prediction is the greatest of a few moments, each by
-- part:
--   logits        forward has ended: every checkpoint is there, and a chunk of logits with the
--                 head's gradient
--   top block     the last block's backward: still every checkpoint, hardly a gradient yet. The
--                 peak of long sequences
--   first block   the first block's backward: the checkpoints are gone, all gradients but its own
--                 and an untied embedding's are there
--   step          the optimizer's. The peak of short sequences
-- In between checkpoints go and gradients come at an even pace. With several micro-batches in a
-- step all gradients are there from the second one on.
--
-- On a GPU, besides: what attention's kernel takes (attention_bytes.lua), and what CUDA and its
-- libraries take for themselves (`gpu` below).
--
-- Not counted: pages of mapped weight files beside weights that were made of them in another dtype,
-- which the kernel lets go when it wants room (a process's resident size holds them: `mapped` of
-- memory_facts.lua), and what an allocator wastes.
--
-- T tokens of a micro-batch, t = T / sp on a rank; D hidden size, I features of the MLP that a
-- token meets, V vocabulary, L layers. a: bytes of the residual stream (fp32; fp64 for fp64), e: of
-- a matrix product's element, w: of a stored weight that learns, g: of a gradient.
local attention_bytes = require "moonring.plan.attention_bytes"

---@class moonring.memory
--- what measurements may correct: numbers of full-length tensors, and budgets in bytes
---@field coefficients table<string, any>
---@field error number the relative error that a prediction is held to
---@field parts string[] the parts' names, in the order in which they are told
local memory = {}

---@class moonring.MemoryPrediction
---@field total number bytes of a rank at the greatest moment
---@field parts table<string, number> of these by part
---@field moment "logits" | "top block" | "first block" | "step" which one it is
---@field moments moonring.MemoryMoment[]
---@field mapped number of them those of weights that are pages of a file and not anonymous
---@field host number bytes a rank that lie in the host's memory instead
---@field disk number bytes a rank that lie on disk instead
---@field fixed { bytes: number, words: string }[] of the part `other`, what a GPU takes for itself

---@class moonring.MemoryMoment
---@field name "logits" | "top block" | "first block" | "step"
---@field total number bytes
---@field parts table<string, number> bytes by part

---@class moonring.MemoryFacts
---@field model moonring.ModelShape
---@field learns { embedding: number, head: number, blocks: number } parameters of each that learn
---@field adapter number parameters of an adapter beside them
---@field depth integer layers that a backward goes down
---@field tokens number of a micro-batch, over the sp group
---@field alone number of an example, over the sp group
---@field step number of a step, on one sp group
---@field documents integer of an example
---@field micro_batches integer in a step
---@field sp integer
---@field ranks integer
---@field machine integer ranks that share one
---@field strategy string
---@field contexts integer
---@field head_ranks integer
---@field keys "ring" | "windows" | "gather"
---@field contiguous boolean
---@field zero_stage integer
---@field zero_ranks number over which states are sharded
---@field precision "fp32" | "bf16" | "pure_bf16" | "fp64"
---@field recompute "block" | "selective" | "none"
---@field whole_layers? integer the first layers, that keep everything whatever `recompute` says
---@field selective_layers? integer the layers after them, that keep attention's result
---@field optimizer "adamw" | "sgd"
---@field activation_offload? "cpu" | "disk" where it moves anything
---@field idle_offload? string a line that says so where it is asked for and does not
---@field offload_optimizer? "cpu" | "disk"
---@field device "cpu" | "cuda"
---@field reference boolean whether a second model is held
---@field logits "chunked" | "none" | "whole"
--- bytes of files whose pages stay resident while nobody wants the room, counted nowhere; 0: on a
--- CPU weights that nobody changes are their file's pages
---@field mapped? number
--- documents of a micro-batch, which a GPU's kernels take apart; 1 where absent
---@field sequences? integer
---@field deterministic? boolean whether a GPU's kernels give the same bits each time
---@field context_is_there? boolean whether CUDA's context is taken from the memory there is already
---@field learning_layers? integer of which `learns.blocks` are parameters; all where absent
---@field dora? number elements of the largest map that DoRA is put on
---@field tile_bytes? number of a tile of rows in work; 0: no tiles

---@class moonring.ModelShape
---@field layers integer
---@field hidden integer
---@field width integer features of the MLP that a token meets
---@field heads integer
---@field kv_heads integer
---@field head_dim integer
---@field vocab integer
--- how many times more rows a tile has than of a dense MLP; 1 where absent
---@field tile_factor? integer
---@field softcap? number the bound that attention's scores approach; absent or 0: they have none
---@field tied? boolean whether the head is the embedding
---@field bias? boolean whether q, k and v have one
---@field embedding? integer parameters of it, as of the next two
---@field head? integer 0 where it is tied
---@field blocks? integer and the final norm

--- What measurements may correct: numbers of full-length tensors, and budgets.
memory.coefficients = {
  -- [t, D] of a bytes in a block's backward: the gradient of what went in, in the place of that of
  -- what came out.
  stream = 1,
  -- On a CPU [t, Hk, d] twice: gradients of keys and values that threads hold for themselves.
  key_sums = 1,
  -- A layer that keeps its graph: [t, D] of a bytes, [t, D] of e bytes, [t, I] of e bytes, beside
  -- attention's.
  graph_stream = 2, graph_normed = 1, graph_mlp = 2,
  -- [t, I] of e bytes where the MLP is never tiled: gate, up and their product, and the gradients
  -- of these.
  whole_mlp = 6,
  -- Bytes a logit where they are made whole: in bf16, in fp32, their log-softmax, its gradient
  -- (Transformers' way: 2 + 4 + 4 + 4).
  whole_logits = 14,
  -- The same where a reference answers meanwhile: the policy's in fp32 and their log-softmax, and
  -- the reference's 2 + 4 + 4.
  whole_pair_logits = 18,
  -- Layers whose checkpoints stay. On the host: three on their way out in the forward
  -- (model/blocks/host_store.cc), one in use and one read ahead in the backward. On disk: one in
  -- use; what is read ahead is the kernel's cache.
  offloaded_layers = { cpu = 3, disk = 1 }, offloaded_back = { cpu = 2, disk = 1 },
  gathered_blocks = 2, -- blocks whose weights are whole under ZeRO-3: one in use, one fetched ahead
  -- What a tile of rows in work may take, and the least of them (model/blocks/row_tiles.h).
  tile_bytes = 2 ^ 26, tile_rows = 512,
  -- What a row of a tile takes in its backward, as tiles are cut by it and a CPU's processes were
  -- measured: [I] and [D] of a bytes, beside its heads (model/blocks/transformer_block.cc); [D]
  -- besides for each expert that a token is sent to.
  tile_mlp = 5, tile_stream = 7, tile_chosen = 3,
  chunk_bytes = 2 ^ 26, -- of logits, in every dtype that they are in (objectives/log_prob.h)
  -- Of W + s B A at a time, whose rows' norms DoRA wants, in fp32 (model/blocks/projection.cc).
  norm_elements = 2 ^ 24,
  zero_bucket = 2 ^ 25, -- in which gradients and weights go to and from shards
  -- Of a process that has not begun, anonymous: on a CPU 61 MiB after its start, 20 more with a
  -- tokenizer and its data (measured), 40 that the allocator keeps between two trims
-- (comm/memory/heap.h).
  base = { cpu = 128e6 },
  -- A GPU's own, in bytes.
  gpu = {
    -- The driver's, with the kernels that are loaded; outside of LibTorch's allocator (assumed:
    -- none was measured yet).
    context = 500 * 2 ^ 20,
    -- A workspace for each handle and stream (LibTorch 2.11, CublasHandlePool.cpp), here one of
    -- each: 32 MiB on Hopper and Blackwell, 8.1 MiB before.
    cublas = 2 ^ 25,
    nccl = 2 ^ 28, -- buffers of each group that sends: the world, and that of a sequence (assumed)
    -- The last page of each of the allocator's pools, 20 MiB where segments grow: for computing,
    -- copies to the host, and collectives.
    pages = 3 * 20 * 2 ^ 20,
  },
}

local GPU_WORDS = { { "context", "CUDA's context, outside of the allocator" },
  { "cublas", "cuBLAS's workspace" }, { "nccl", "NCCL's buffers, outside of the allocator" },
  { "pages", "pages of the allocator that are filled in part" } }

--- What a GPU takes for itself: CUDA's context, workspaces and buffers of its libraries; nothing on
--- a CPU.
---@param f moonring.MemoryFacts
---@return { bytes: number, words: string }[]
function memory.fixed(f)
  if f.device ~= "cuda" or f.base then return {} end
  local c = memory.coefficients.gpu
  local counts = { context = f.context_is_there and 0 or 1, cublas = 1, nccl = (f.ranks or 1) == 1
    and 0 or f.sp > 1 and 2 or 1, pages = 1 }
  local list = {}
  for _, row in ipairs(GPU_WORDS) do
    if counts[row[1]] > 0 then
      list[#list + 1] = { bytes = counts[row[1]] * c[row[1]], words = row[2] }
    end
  end
  return list
end

local function base_of(f)
  if f.base or f.device ~= "cuda" then return f.base or memory.coefficients.base[f.device] end
  local bytes = 0
  for _, each in ipairs(memory.fixed(f)) do bytes = bytes + each.bytes end
  return bytes
end

--- The relative error that a prediction is held to. Nineteen runs on a CPU
-- (tests/peers/plan_vs_runs.py: SmolLM2-135M, full, freeze and LoRA, precisions, recompute,
-- offload, ranks, ZeRO; a million tokens through a small model at sp 1 and 2) had a peak of
-- anonymous memory of 0.93 to 1.06 times it, mapped weights apart. On a pretend GPU, which counts
-- what tensors and kernels take there, fourteen had 0.98 to 1.04 times it
-- (tests/scripts/pretend_plan_test.cc).
memory.error = 0.1

local SIZES = {
  fp32 = { e = 4, w = 4, a = 4, g = 4 },
  bf16 = { e = 2, w = 4, a = 4, g = 4 },
  pure_bf16 = { e = 2, w = 2, a = 4, g = 4 },
  fp64 = { e = 8, w = 8, a = 8, g = 8 },
}

local PARTS = { "weights", "reference", "gradients", "optimizer", "checkpoints", "attention",
  "kernel", "block", "logits", "communication", "other" }

--- The parts' names, in the order in which they are told.
memory.parts = PARTS

--- Fills in the parameters of a model of Llama's shape, by part, and returns it.
---@param m moonring.ModelShape
---@return moonring.ModelShape
function memory.shape(m)
  local rows = (m.heads + 2 * m.kv_heads) * m.head_dim
  local block = m.hidden * rows + m.heads * m.head_dim * m.hidden + (m.bias and rows
    or 0) + 3 * m.hidden * m.width + 2 * m.hidden
  m.embedding = m.vocab * m.hidden
  m.head, m.blocks = m.tied and 0 or m.embedding, m.layers * block + m.hidden
  return m
end

-- Tiles of rows in which what follows attention is run.
local function tiles_of(f, s)
  local m, c, t = f.model, memory.coefficients, f.tokens / f.sp
  local row = s.a * (c.tile_mlp * m.width + (c.tile_stream + c.tile_chosen * (m.chosen
    or 0)) * m.hidden + m.heads * m.head_dim)
  local most = f.tile_bytes == 0 and t or math.max(c.tile_rows * (m.tile_factor or 1),
    (f.tile_bytes or c.tile_bytes) / row)
  return math.max(1, math.ceil(t / most)), row
end

-- What follows attention in a GPU's block while one tile runs backward, tensor by tensor. [D] of a
-- bytes: the stream after attention, the block's result; [D] of e bytes: what the MLP is given and
-- its result's gradient (in fp32 the first is there once more in the place of these two). [I] of e
-- bytes: gate, up, their product's parts and its gradient, five; of experts two of all rows, and
-- three of the rows of one that has its share. Of experts [D] of e bytes four times for each
-- choice: the rows as they are sent, what comes back, and the gradients of both. DoRA keeps what it
-- scales: [I] twice more; where it scales gate's gradient gate and up are gone, and that is there
-- in a bytes as well as in a product.
--
-- Weights' gradients are in e bytes; of more than one tile their sums, in g bytes, besides. While
-- the tile works only that of the last map is there, and at its end all of them beside the
-- gradients of gate and up.
local function gpu_tile(f, s, learning)
  local m, t = f.model, f.tokens / f.sp
  local keeps_graph = f.recompute == "none"
  local tiles = keeps_graph and 1 or tiles_of(f, s)
  local gradients, inner = learning * (1 - (m.heads + 2 * m.kv_heads) * m.head_dim * m.hidden / (
    m.blocks / m.layers)), 5 * s.e
  if m.experts then inner = (2 + 3 / m.experts) * s.e end
  local stream = s.e == s.a and 3 * s.a or 2 * s.a + 2 * s.e
  if keeps_graph then inner, stream = inner - 2 * s.e, s.e end -- the graph has them
  if f.dora then inner = math.max(inner + 2 * s.e, 5 * s.e + (s.e == s.a and s.a or 2 * s.a)) end
  local working = t / tiles * (inner * m.width + (stream + 4 * (m.chosen
    or 0) * s.e) * m.hidden) + s.e * gradients / 3
  local ending = t / tiles * (2 * s.e * m.width + stream * m.hidden) + s.e * gradients
  local norms = f.dora and t / tiles * (5 * s.e * m.width + stream * m.hidden) + 2 * s.a * math.min(
    memory.coefficients.norm_elements, f.dora) or 0
  return math.max(working, ending, norms) + (tiles > 1 and s.g * gradients or 0), s.e * gradients
end

-- What follows attention in a block, in work backward: bytes of a tile of rows with the gradients
-- of its weights, summed over tiles in g bytes beside those of the last one. Then these gradients
-- when it is done.
local function tiled(f, s, learning)
  local m, c, t = f.model, memory.coefficients, f.tokens / f.sp
  if f.mlp == "whole" then
    return c.whole_mlp * t * m.width * s.e + s.e * learning, s.e * learning
  end
  if f.device == "cuda" then return gpu_tile(f, s, learning) end
  -- The whole graph is there already.
  if f.recompute == "none" then return s.e * learning, s.e * learning end
  local tiles, row = tiles_of(f, s)
  return t / tiles * row + (tiles > 1 and s.g + s.e or s.e) * learning, s.e * learning
end

-- What is held all through a step, by part; what lies in the host's memory (a GPU's offload) or on
-- disk instead; and sizes that follow.
local function states(f, s)
  local m, c = f.model, memory.coefficients
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
  held.optimizer = ((f.optimizer == "sgd" and 0 or 2 * s.g) + master) * learns / shards
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

-- How many layers keep their graph, and how many attention's result.
local function spending(f)
  local whole = f.recompute == "none" and f.depth or math.min(f.whole_layers or 0, f.depth)
  return whole, f.recompute == "selective" and f.depth - whole
    or math.min(f.selective_layers or 0, f.depth - whole)
end

-- The layers' share that lives from forward to backward: inputs of blocks, what selective keeps,
-- the whole graph; the same as the last layer's backward finds it. Then what the first layer keeps,
-- and what of its own work the last one has kept already.
local function kept(f, s, attention, held)
  local m, c, t = f.model, memory.coefficients, f.tokens / f.sp
  local whole, selective = spending(f)
  local input = t * m.hidden * s.a
  local graph = t * (m.hidden * (c.graph_stream * s.a + c.graph_normed * s.e) + (
    c.graph_mlp * m.width + (m.heads + 2 * m.kv_heads) * m.head_dim) * s.e) + attention.kept
    -- What attention gave to the products, and the weights as they had them.
    + (s.e ~= s.a and t * m.heads * m.head_dim * s.e or 0) + held.cast
  local all, back = (f.depth - whole) * input + selective * attention.kept, nil
  if select(2, held.moved(0, f.activation_offload)) then
    local of_layer = all / math.max(f.depth - whole, 1)
    local function stay(layers)
      return math.min(f.depth - whole, f.offloaded_layers
        or layers[f.activation_offload]) * of_layer
    end
    held.moved(all - stay(c.offloaded_layers), f.activation_offload)
    all, back = stay(c.offloaded_layers), stay(c.offloaded_back)
  end
  local of_first = whole > 0 and graph or input + (selective > 0 and attention.kept or 0)
  local of_last = whole == f.depth and attention.waiting
    or (whole + selective == f.depth and attention.kept) or 0
  return all + whole * graph, (back or all) + whole * graph, of_first, of_last
end

-- A chunk of logits: its bytes, in the dtype of sums and in that of the product, and its rows. A
-- softcap of theirs keeps one more of them for a moment.
local function chunk(f, s)
  if f.logits ~= "chunked" then return 0, 0 end
  local m, t = f.model, f.tokens / f.sp
  local of_row = m.vocab * (s.a + (s.e ~= s.a and s.e or 0))
  local chunks = math.max(1, math.ceil(t * of_row / memory.coefficients.chunk_bytes))
  return t / chunks * (of_row + ((m.logit_softcap or 0) ~= 0 and m.vocab * s.a or 0)), t / chunks
end

-- What a token takes all through a micro-batch on a GPU: rotary's cosines and sines of half a head
-- each; its id, position, target and where that is; its log-prob.
local function row_bytes(f, s)
  if f.device ~= "cuda" then return 0 end
  return f.model.head_dim * s.a + 4 * 8 + s.a
end

--- Bytes of a rank.
---@param f moonring.MemoryFacts
---@return moonring.MemoryPrediction
function memory.predict(f)
  local m, c, t = f.model, memory.coefficients, f.tokens / f.sp
  local s = setmetatable({ a = f.stream_bytes }, { __index = SIZES[f.precision] })
  local attention = attention_bytes.memory { tokens = f.tokens, sp = f.sp, heads = m.heads,
    kv_heads = m.kv_heads, head_dim = m.head_dim, contexts = f.contexts,
    head_ranks = f.head_ranks, keys = f.keys, contiguous = f.contiguous,
      window = m.windowed == m.layers and m.window or nil,
    element_bytes = s.e, sum_bytes = f.sum_bytes or math.max(4, s.e), device = f.device,
      sequences = f.sequences, deterministic = f.deterministic, softcap = m.softcap,
      kernels = f.kernels }
  local held = states(f, s)
  local checkpoints, waiting, of_first, of_last = kept(f, s, attention, held)
  local input, hidden = t * m.hidden * s.a, t * m.hidden
  local rows = row_bytes(f, s) * t
  local all, head = s.g * held.learns, s.g * (m.tied and f.learns.embedding or f.learns.head)
  local tile, tile_gradients = tiled(f, s, held.learning)
  local carried = f.micro_batches > 1
  local whole = f.logits == "whole" and (f.pairs and c.whole_pair_logits
    or c.whole_logits) * t * m.vocab
  local logits, chunk_rows = chunk(f, s)
  if whole then logits, chunk_rows = whole, 0 end

  local moments, base = {}, base_of(f)
  local function moment(name, parts)
    parts.weights, parts.optimizer, parts.reference,
      parts.other = held.weights + (parts.weights or 0), held.optimizer, held.reference, base
    parts.gradients = (f.offload_gradients or held.gradients_are_away) and 0 or parts.gradients
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
    logits = logits + 2 * hidden * s.a + chunk_rows * m.hidden * (
      2 * s.a + (s.e ~= s.a and s.e or 0)) + held.head + ((carried or shards > 1) and head or 0),
    communication = head >= c.zero_bucket and held.waits > 0 and held.sent or held.waits,
      block = rows })
  -- A whole graph has its own.
  local full = (f.stream_copies or c.stream) * hidden * s.a + (f.recompute == "none" and 0
    or held.cast)
  -- An adapter's maps keep the normed rows that attention's entrance gave them, and DoRA's what
  -- they scale.
  local inputs = f.adapter > 0 and (t * s.e * (m.hidden + (f.dora
    and (m.heads + 2 * m.kv_heads) * m.head_dim or 0))) or 0
  local key_sums = f.device == "cpu" and c.key_sums * t * 2 * m.kv_heads * m.head_dim * math.max(4,
    s.e) or 0
  -- First what follows attention, then attention; the greater of the two.
  local function greater()
    local last = table.remove(moments)
    if last.total > moments[#moments].total then moments[#moments] = last end
  end
  local function in_block(name, gradients, left)
    moment(name, { weights = held.gathered, gradients = gradients, checkpoints = left,
      attention = attention.waiting + inputs - of_last,
      communication = attention.exchanged + held.waits, block = full + tile + rows })
    moment(name, { weights = held.gathered, gradients = gradients, checkpoints = left,
      attention = attention.attention + inputs + key_sums - of_last,
      kernel = attention.kernel, communication = attention.communication + held.waits,
        block = full + tile_gradients + rows })
    greater()
    if held.waits == 0 then return end
    moment(name, { gradients = gradients, checkpoints = left,
      communication = held.waits + held.sent, block = hidden * s.a + rows })
    greater()
  end
  in_block("top block", math.max(before, head / shards), waiting)
  in_block("first block", (carried and all or all - s.g * ((m.tied and 0
    or f.learns.embedding) + held.learning)) / shards,
    math.min(waiting, of_first))
  moment("step", { gradients = all / shards, communication = held.sent, block = s.w ~= s.g
    and s.g * held.learns > 0 and s.g * math.max(m.vocab * m.hidden, m.hidden * m.width) / math.max(
    shards, 1) or 0 })

  local peak = moments[1]
  for _, each in ipairs(moments) do peak = each.total > peak.total and each or peak end
  return { total = peak.total, parts = peak.parts, moment = peak.name, moments = moments,
    mapped = held.mapped, host = held.host, disk = held.disk, fixed = memory.fixed(f) }
end

--- The most tokens of a micro-batch that fit, in steps; 0 where not even one does.
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
