-- Tests predictions of memory: memory_test.lua SECTION MODEL_FOLDER. Raises one error that lists
-- all failures. Expected numbers are closed forms in this file, or counts of attention.cost from a
-- plan.
local section, folder = arg[1], arg[2]
local moonring = require "moonring"
local compute = require "moonring.choices.compute"
local machine = require "moonring.base.machine"
local memory = require "moonring.plan.memory"
local memory_facts = require "moonring.plan.facts"
local memory_check = require "moonring.plan.check"
local plan_tables = require "moonring.plan.tables"
local plan_text = require "moonring.plan.text"
local attention_bytes = require "moonring.plan.attention_bytes"
local coefficients = require "moonring.plan.coefficients"
local communication = require "moonring.plan.communication"
local measures = require "moonring.plan.measures"
local mixing_bytes = require "moonring.plan.mixing_bytes"
local model_shape = require "moonring.plan.model_shape"
local process_bytes = require "moonring.plan.process_bytes"
local published = require "moonring.plan.published"
local shifted_bytes = require "moonring.plan.shifted_bytes"
local plan = moonring.plan

local failures = {}
local function check(condition, ...)
  local words = { ... }
  for i, word in ipairs(words) do words[i] = tostring(word) end
  if not condition then failures[#failures + 1] = table.concat(words) end
end

local function near(what, got, wanted, tolerance)
  check(math.abs(got - wanted) <= (tolerance or 1e-9) * math.max(math.abs(wanted), 1), what,
    ": expected ", wanted, ", got ", got)
end

-- Returns the keys of a measure that saves memory, in one line.
local function words_of(measure) return table.concat(measure.keys, ", ") end

-- The shape of a model with about 1e9 parameters and an untied head. P is its number of parameters.
local SHAPE = model_shape.fill { layers = 20, hidden = 2048, width = 5504, heads = 16, kv_heads = 4,
  head_dim = 128, vocab = 32000 }
local BLOCK = 2048 * (16 + 8) * 128 + 16 * 128 * 2048 + 3 * 2048 * 5504 + 2 * 2048
local P = 2 * 32000 * 2048 + 20 * BLOCK + 2048

-- Returns the input of the predictions for full fine-tuning of this model, with some fields
-- changed.
local function facts(changes)
  local f = { model = SHAPE, learns = { embedding = SHAPE.embedding, head = SHAPE.head,
    blocks = SHAPE.blocks }, adapter = 0, depth = 20, tokens = 1024, alone = 1024, step = 1024,
    documents = 1, micro_batches = 1, sp = 1, ranks = 8, machine = 8, zero_ranks = 8,
      zero_stage = 0, strategy = "zigzag-ring", precision = "fp32", recompute = "block",
    moments = 2, device = "cuda", reference = false, logits = "chunked", base = 0 }
  for name, value in pairs(changes or {}) do f[name] = value end
  return memory_facts.spread(f, f.sp, f.strategy)
end

local function moment(f, name)
  for _, each in ipairs(memory.predict(f).moments) do
    if each.name == name then return each end
  end
end

local sections = {}

-- The peak of the fullest rank, as attention.cost counts it.
local function peak_of(asked)
  local peak = 0
  for _, rank in ipairs(moonring.attention.cost(asked)) do
    peak = math.max(peak, rank.peak_bytes)
  end
  return peak
end

-- The bytes in memory are close to those of the plan: the prediction excludes the tile that is
-- being computed, and estimates the keys of the rank with the most.
local function attention_of(head_dim, value_dim)
  local heads, kv_heads, tokens = 32, 8, 32768
  for _, dtype in ipairs { "fp32", "bf16" } do
    for _, case in ipairs { { "ulysses", 4 }, { "ulysses", 16 }, { "ring", 4 },
      { "zigzag-ring", 2 }, { "zigzag-ring", 8 }, { "all-gather", 2 }, { "all-gather", 8 },
      { "usp", 8 },
      { "double-ring", 8 }, { "ring", 4, 1024 }, { "zigzag-ring", 2, 1024 },
        { "zigzag-ring", 8, 2048 }, { "all-gather", 2, 1024 }, { "all-gather", 8, 2048 } } do
      local label = ("%s over %d ranks in %s, %d|%d%s"):format(case[1], case[2], dtype, head_dim,
        value_dim or head_dim, case[3] and ", a window of " .. case[3] or "")
      local asked = { strategy = case[1], ranks = case[2], heads = heads, kv_heads = kv_heads,
        head_dim = head_dim, value_dim = value_dim }
      local f = memory_facts.division(asked)
      f.tokens, f.sp, f.heads, f.kv_heads, f.head_dim, f.sum_bytes, f.device = tokens, case[2],
        heads, kv_heads, head_dim, 4, "cpu"
      f.value_dim = value_dim
      f.element_bytes = dtype == "fp32" and 4 or 2
      asked.lengths, asked.dtype, asked.window, f.window = { tokens }, dtype, case[3], case[3]
      local held, peak = attention_bytes.memory(f), peak_of(asked)
      -- The plan excludes inputs and outputs (q, k, v, out's gradient, out, and the gradients of q,
      -- k, v), and the tensors saved by the forward.
      local rows, own = tokens / f.contexts, tokens / case[2] * f.element_bytes
      local both = head_dim + (value_dim or head_dim)
      local there = own * (heads + kv_heads) * both + own * (heads * head_dim + kv_heads * both)
        + held.kept
      local wide = f.head_ranks > 1 or dtype == "bf16"
      if wide then there = there + own * heads * (both - head_dim) end
      if f.head_ranks > 1 then
        there = there + rows * (math.ceil(heads / f.head_ranks) * head_dim + math.max(1,
          math.ceil(kv_heads / f.head_ranks)) * both) * f.element_bytes
      end
      near(label .. ": held", held.attention + held.communication - there, peak, 0.16)
    end
  end
end

function sections.attention()
  attention_of(128)
  attention_of(192, 128)
  attention_of(96, 128)
  local dense = { tokens = 1000, sp = 1, contexts = 1, head_ranks = 1, heads = 4, kv_heads = 2,
    head_dim = 8, element_bytes = 4, sum_bytes = 4, device = "cpu" }
  near("dense holds", attention_bytes.memory(dense).attention,
    1000 * 8 * 4 * (2 * 4 + 2 * (4 + 2 * 2)) + 1000 * 4 * 4)
  near("dense exchanges", attention_bytes.memory(dense).communication, 0)
end

-- The same for shifted attention.
function sections.shifted()
  for _, dtype in ipairs { "fp32", "bf16" } do
    for _, case in ipairs { { "dense", 1 }, { "ulysses", 4 }, { "zigzag-ring", 2 },
      { "zigzag-ring", 8 }, { "ring", 4 }, { "all-gather", 4 }, { "usp", 8 } } do
      local label = ("shifted, %s over %d ranks in %s"):format(case[1], case[2], dtype)
      local asked = { strategy = case[1], ranks = case[2], heads = 32, kv_heads = 8,
        head_dim = 128 }
      local f = memory_facts.division(asked)
      f.tokens, f.sp, f.heads, f.kv_heads, f.head_dim, f.sum_bytes, f.device = 65536, case[2], 32,
        8, 128, 4, "cpu"
      f.element_bytes = dtype == "fp32" and 4 or 2
      asked.lengths, asked.dtype, asked.shifted = { f.tokens }, dtype, true
      local held, own = shifted_bytes.memory(f), f.tokens / case[2] * f.element_bytes * 128
      -- Inputs and out's gradient, the output and gradients, and the saved tensors.
      local there = own * (2 * (32 + 2 * 8) + 2 * 32) + held.kept + held.exchanged
      near(label .. ": held", held.attention + held.communication, there + peak_of(asked), 0.12)
    end
  end
end

-- Bytes per parameter in the optimizer's step of full fine-tuning, by precision and ZeRO stage.
function sections.states()
  near("parameters", SHAPE.embedding + SHAPE.head + SHAPE.blocks, P)
  for _, case in ipairs {
    { "fp32", 0, 4 + 4 + 8 }, { "bf16", 0, 4 + 4 + 8 }, { "pure_bf16", 0, 2 + 4 + 8 },
    { "fp32", 1, 4 + 4 + 8 / 8 }, { "bf16", 1, 2 + 4 + (8 + 4) / 8 },
    { "fp32", 2, 4 + 4 / 8 + 8 / 8 }, { "bf16", 2, 2 + 4 / 8 + (8 + 4) / 8 },
    { "fp32", 3, (4 + 4 + 8) / 8 }, { "bf16", 3, (4 + 4 + 8) / 8 },
  } do
    local step = moment(facts { precision = case[1], zero_stage = case[2] }, "step")
    -- Expected: the states, a bucket of gradients, and this rank's shard of the bucket's sum.
    near(("%s, stage %d"):format(case[1], case[2]), step.total,
      case[3] * P + (case[2] > 0 and 2 ^ 25 + 2 ^ 25 / 8 or 0))
  end
  near("sgd", moment(facts { moments = 0 }, "step").total, 8 * P)
  -- An adapter: the model is frozen, in the products' dtype.
  local lora = facts { precision = "bf16", learns = { embedding = 0, head = 0, blocks = 0 },
    adapter = 1e6 }
  near("lora", moment(lora, "step").total, 2 * P + 16 * 1e6)
  near("a reference", memory.predict(facts { precision = "bf16",
    reference = true }).parts.reference, 2 * P)
  -- Offload moves the optimizer's states, with the sharded fp32 weights, from a GPU to the host.
  -- For training on the CPU, only the disk is another place.
  local away = memory.predict(facts { precision = "bf16", zero_stage = 3,
    offload_optimizer = "cpu" })
  -- The host has the states, the bf16 shard that is gathered, and the gradients of the rank's
  -- shard.
  near("on the host", away.host, (12 + 2 + 4) * P / 8)
  near("offloaded states leave", away.parts.optimizer, 0)
  -- The GPU only keeps the gradients of the block that is being copied to the host.
  local sharded = facts { precision = "bf16", zero_stage = 3, offload_optimizer = "cpu" }
  near("offloaded gradients leave", moment(sharded, "first block").parts.gradients,
    4 * SHAPE.blocks / 20 / 8)
  near("and have left", moment(sharded, "step").parts.gradients, 0)
  local alone = facts { offload_optimizer = "cpu" }
  near("offloaded without shards", moment(alone, "step").total, 4 * P)
  near("its gradients", moment(alone, "first block").parts.gradients, 4 * SHAPE.blocks / 20)
  near("its host", memory.predict(alone).host, (4 + 8 + 4) * P)
  -- bf16 copies of all matrices, on the GPU or on its host; and two buffers of 32 MiB for casting
  -- bf16 gradients.
  near("cast once a step", moment(facts { precision = "bf16", cast_once = true }, "step").total,
    (2 + 4 + 4 + 8) * P)
  local once = facts { precision = "bf16", offload_optimizer = "cpu" }
  near("kept beside masters on the host", moment(once, "step").parts.weights, 2 * P)
  near("read in fp32", moment(once, "load").total, 4 * P)
  local streamed = facts { precision = "bf16", offload_optimizer = "cpu", offload_weights = "cpu",
    tokens = 512 }
  near("weights on the host", moment(streamed, "step").total, 0) -- gradients were moved to the host
  -- Gradients are added to existing ones in two buffers of 32 MiB.
  near("two micro-batches", moment(facts { precision = "bf16", offload_optimizer = "cpu",
    offload_weights = "cpu", tokens = 512, micro_batches = 2 }, "step").total, 2 * 2 ^ 25)
  near("of two blocks here", moment(streamed, "first block").parts.weights,
    2 * 2 * SHAPE.blocks / 20)
  near("their host", memory.predict(streamed).host, (2 + 4 + 8 + 4) * P)
  local lent = facts { precision = "bf16", learns = { embedding = 0, head = 0, blocks = 0 },
    adapter = 1e6, offload_weights = "cpu" }
  near("frozen weights on the host", memory.predict(lent).host, 2 * P)
  near("moments in bf16", moment(facts { moment_bytes = 2 }, "step").parts.optimizer, 4 * P)
  near("moments in 8 bits", moment(facts { moment_bytes = 1 + 1 / 64 }, "step").parts.optimizer,
    (2 + 1 / 32) * P)
  local at_home = memory.predict(facts { device = "cpu", offload_optimizer = "cpu" })
  near("a CPU's own memory", at_home.parts.optimizer, 8 * P)
  near("on disk", memory.predict(facts { device = "cpu", offload_optimizer = "disk" }).disk, 8 * P)
end

-- Additional memory on a GPU. For Llama-8B's attention (32 query heads, 8 kv heads, head dim 128):
-- bytes per token of one long document, with each tensor as LibTorch's kernel and the code around
-- it allocate it. Also the memory of CUDA and its libraries.
function sections.gpu()
  local H, K, d = 32, 8, 128
  local function held(changes)
    local f = { tokens = 2 ^ 15, sp = 1, contexts = 1, head_ranks = 1, heads = H, kv_heads = K,
      head_dim = d, element_bytes = 2, sum_bytes = 4, device = "cuda" }
    for name, value in pairs(changes or {}) do f[name] = value end
    return attention_bytes.memory(f), f.tokens
  end
  local bf16, tokens = held()
  -- Expected: q, k, v, out's gradient, out, and the gradients of q, k, v, in 16 bits; lse in fp32.
  near("bf16: attention", bf16.attention / tokens,
    2 * (3 * H + 2 * K) * d + 4 * H + 2 * (H + 2 * K) * d)
  local dq_sums, out_sums = 4 * H * d, 4 * H
  -- Expected: the sums, and dk and dv for every query head.
  local running = dq_sums + out_sums + 2 * 2 * H * d
  near("bf16: the kernel", bf16.kernel, tokens * running + 128 * (dq_sums + out_sums))
  -- If the sums of all heads exceed a GiB, attention is computed for one kv head at a time: copies
  -- of out and its gradient, and results that replace q, k and v.
  local long = held { tokens = 2 ^ 20 }
  near("bf16: a million tokens", long.kernel,
    (2 ^ 20 * running + 128 * (dq_sums + out_sums)) / K + 2 ^ 20 * 2 * (3 * H / K + 2) * d)
  near("bf16: their gradients take the place of q, k, v", long.attention / 2 ^ 20,
    2 * (3 * H + 2 * K) * d + 4 * H)
  -- Gradients of gathered keys, or of exchanged heads, are separate tensors.
  local function row(changes)
    local of, tokens_of = held(changes)
    return of.attention / tokens_of
  end
  for _, way in ipairs { { sp = 2, head_ranks = 2 }, { sp = 2, contexts = 2, keys = "gather" } } do
    local short = row(way)
    way.tokens = 2 ^ 22
    near("bf16: a long document over two ranks", row(way), short)
  end
  near("bf16: nothing is sent", bf16.communication, 0)
  near("many documents", held { sequences = 1000 }.kernel - bf16.kernel,
    999 * 128 * (dq_sums + out_sums))
  -- Deterministic: 5 sums for one document, with 132 multiprocessors over 32 heads; 1 sum for so
  -- many documents that each multiprocessor has one.
  near("deterministic", held { deterministic = true }.kernel - bf16.kernel,
    4 * (tokens + 128) * dq_sums)
  near("deterministic, of many", held { deterministic = true, sequences = 5 }.kernel,
    held { sequences = 5 }.kernel)
  -- Without grouped heads there are no additional dk and dv.
  near("as many key heads", held { kv_heads = H }.kernel, (tokens + 128) * (dq_sums + out_sums))
  local fp32 = held { element_bytes = 4 }
  -- The product of out and its gradient, with its sums twice, takes more than the sums of dq.
  near("fp32: the kernel", fp32.kernel,
    tokens * (2 * H * d * 4 + 2 * H * 4 + 3 * H * d * 4 + H * d * 4 + 2 * H * 4))
  -- Expected for heads of dim 16: sums of dq in tiles of 64 rows and 64 columns, with 16 bytes more
  -- per tile.
  near("fp32, small heads", held { element_bytes = 4, head_dim = 16, kv_heads = H }.kernel,
    tokens * (3 * H * 4 + 3 * H * 16 * 4) + tokens / 64 * H * (64 * 64 * 4 + 16))
  -- Expected: three square score matrices, and the corresponding rows of q, its gradient, out's
  -- gradient, k, v and their gradients.
  local function piece(a)
    local rows = math.sqrt(2 ^ 29 / (3 * H * a))
    return 2 ^ 29 + rows * (3 * H + 4 * K) * d * a
  end
  near("fp64: scores written out", held { element_bytes = 8, sum_bytes = 8 }.kernel,
    piece(8) + tokens * (H + 2 * K) * d * 8)
  -- With 16 bits and a softcap, strips of queries are computed against 8,192 keys: two tensors of
  -- scores in fp32, and rows of dq, q and out's gradient.
  local rows = 2 ^ 29 / (2 * 4 * H * 8192)
  near("a softcap", held { softcap = 50 }.kernel,
    2 * 4 * rows * 8192 * H + rows * H * d * (4 + 2 * 2))
  near("few scores", held { softcap = 50, element_bytes = 4, tokens = 100 }.kernel,
    3 * 100 * H * 100 * 4 + 100 * (3 * H + 4 * K + H + 2 * K) * d * 4)
  local function of_160(of_tokens)
    return held { head_dim = 160, kv_heads = H, deterministic = true, tokens = of_tokens }.kernel
  end
  near("heads of 160", of_160(1000) - of_160(999), 5 * 4 * H * 192 + 4 * H)
  near("a CPU", held { device = "cpu" }.kernel, 0)
  near("left out", held { kernels = "none" }.kernel, 0)
  -- Over ranks: Ulysses has half of the heads; other strategies have a rank's rows and the keys
  -- that it receives.
  near("ulysses", held { sp = 2, head_ranks = 2 }.kernel,
    tokens * running / 2 + 64 * (dq_sums + out_sums), 1e-6)
  near("ring", held { sp = 2, contexts = 2, keys = "ring" }.kernel,
    tokens / 2 * (running + 2 * 2 * H * d + 4 * H + 2 * (H + 2 * K) * d + 2 * 2 * K * d)
      + 128 * (dq_sums + out_sums), 1e-6)

  local function fixed(changes)
    local bytes, words = 0, {}
    for _, each in ipairs(process_bytes.fixed(facts(changes))) do
      bytes, words[#words + 1] = bytes + each.bytes, each.words
    end
    return bytes, table.concat(words, "; ")
  end
  near("base", fixed(), 0) -- the memory of the process is a fact
  local f = facts { sp = 2, tokens = 2 ^ 18, base = false }
  local all, context = memory.predict(f), coefficients.gpu.context
  local bytes = 0
  for _, each in ipairs(all.fixed) do bytes = bytes + each.bytes end
  near("the process itself", all.parts.other, bytes)
  check(#all.fixed == 4 and bytes > context, "a GPU takes for itself ", #all.fixed, " things, ",
    bytes, " bytes")
  f.context_is_there = true
  near("with the context there", all.total - memory.predict(f).total, context)
  f.device = "cpu"
  near("a CPU's process", memory.predict(f).parts.other,
    coefficients.base.cpu + 900 * f.model.vocab) -- with its tokenizer
  local text = table.concat(plan_text.parts(all, "  "), "\n")
  for _, words in ipairs { "attention's kernel", "CUDA's context", "cuBLAS's workspace",
    "NCCL's buffers", "filled in part" } do
    check(text:find(words, 1, true), "the plan does not report ", words, ":\n", text)
  end
  -- The process groups of a rank: the world, its sp and dp groups, and two for each further split.
  for _, of in ipairs { { 0, ranks = 1, sp = 1 }, { 2, ranks = 4, sp = 4 },
    { 2, ranks = 4, sp = 1 },
    { 3, ranks = 8, sp = 2 }, { 3, ranks = 8, sp = 2, zero_stage = 3, zero_ranks = 8 },
    { 3, ranks = 8, sp = 2, zero_stage = 0, zero_ranks = 4 },
    { 5, ranks = 8, sp = 2, zero_stage = 1, zero_ranks = 4 },
    { 7, ranks = 8, sp = 2, zero_stage = 1, zero_ranks = 4, expert_ranks = 4 },
    { 4, ranks = 8, sp = 2, zero_stage = 1, zero_ranks = 2, local_steps = 5 } } do
    check(process_bytes.groups(of) == of[1], "groups of ", of.ranks, " ranks, sp ", of.sp, ": ",
      process_bytes.groups(of), ", expected ", of[1])
  end
  -- Facts from a configuration: the documents of a micro-batch (300 tokens: two pairs with
  -- documents of 100 tokens each), and whether kernels are deterministic.
  local checkpoint = moonring.model.open_config(folder .. "/config.json")
  local c = moonring.config.load(nil, { "cutoff_len=100", "per_device_train_batch_size=3",
    "stage=dpo", "full_determinism=true" })
  local run = memory_facts.run(c, checkpoint,
    { ranks = 1, device = "cuda", context_is_there = true })
  check(run.sequences == 4 and run.deterministic and run.context_is_there, "pairs: ", run.sequences,
    " documents, deterministic: ", run.deterministic)
end

-- Messages about GPUs: equal GPUs are listed together, different ones separately. A GPU without
-- bf16 products is rejected with the keys that require them.
function sections.gpus()
  local gpu = require("moonring.plan.gpu")
  local h100 = { name = "NVIDIA H100 80GB HBM3", major = 9, minor = 0, multiprocessors = 132,
    driver = 13010, runtime = 13000, total = 80 * 2 ^ 30 }
  local t4 = { name = "Tesla T4", major = 7, minor = 5, multiprocessors = 40, driver = 13000,
    runtime = 13000, total = 15 * 2 ^ 30 }
  local words = gpu.describe(h100)
  check(words == "NVIDIA H100 80GB HBM3, compute capability 9.0, 132 multiprocessors, 80.0 GiB; "
    .. "bf16: yes, flash attention: yes; CUDA 13.0, its driver up to 13.1", words)
  check(gpu.describe(t4):find("bf16: no, flash attention: no", 1, true), gpu.describe(t4))
  check(gpu.describe { total = 2 ^ 30 } == "a GPU with 1.0 GiB", gpu.describe { total = 2 ^ 30 })
  local lines = gpu.lines { { words = "A", free = 3 * 2 ^ 30 }, { words = "A", free = 2 ^ 30 } }
  check(#lines == 1 and lines[1] == "GPU of each of 2 ranks: A; at least 1.0 GiB free",
    lines[1])
  lines = gpu.lines { { words = "A", free = 2 ^ 30 }, { words = "B", free = 2 ^ 30 },
    { words = "A", free = 2 ^ 31 } }
  check(#lines == 2 and lines[1] == "GPU of rank 0, 2: A; at least 1.0 GiB free"
    and lines[2] == "GPU of rank 1: B; 1.0 GiB free", lines[1], lines[2])
  check(gpu.lines({ { words = "A", free = 2 ^ 30 } })[1] == "GPU: A; 1.0 GiB free", "one rank")
  check(gpu.refusal({ bf16 = true }, h100) == nil and gpu.refusal({}, t4) == nil
    and gpu.refusal({ bf16 = true }, { total = 1 }) == nil, "refused without a reason")
  for _, key in ipairs { "bf16", "pure_bf16" } do
    local why = gpu.refusal({ [key] = true }, t4) or ""
    check(why:find(key .. ": Tesla T4 has compute capability 7.5", 1, true)
      and why:find(key .. ": false", 1, true), key, " on a T4: ", why)
  end
  check(#gpu.check(moonring.config.load(nil, {}), "cpu", nil) == 0, "a CPU is reported")
  local c = moonring.config.load(nil, { "full_determinism=true" })
  check(compute.determinism(moonring.config.load(nil, {}), "cpu") == nil
    and compute.determinism(c, "cpu"):find("changes nothing", 1, true),
    "full_determinism on a CPU")
end

-- The table of memory_report: the CPU's components next to the plan. With a GPU, the plan is for
-- the GPU and is printed next to the GPU's components.
function sections.report()
  local lines = require("moonring.report.memory_report").lines
  local figures = { rank = 1, parts = { weights = 2 ^ 20, scripts = 2 ^ 20 },
    totals = { kernel = 2 ^ 22, explained = 2 ^ 21, start_level = 2 ^ 23 } }
  local planned = { weights = 3 * 2 ^ 20, logits = 0, total = 3 * 2 ^ 20 }
  local cpu = table.concat(lines(figures, planned, 2, "at the end"), "\n")
  check(cpu == table.concat({ "memory at the end, at the peak of rank 1, the greatest of 2; MiB; "
    .. "last column: the plan", "  weights                     1.0    25.0 %        3.0",
    "  scripts                     1.0    25.0 %", "  explained                   2.0    50.0 %   "
      .. "     3.0", "  the kernel counts           4.0   100.0 %  anonymous and shared, above "
      .. "8.0 after start-up" },
    "\n"), cpu)
  figures.device = { weights = 6 * 2 ^ 20, logits = 2 * 2 ^ 20, attention = 0 }
  figures.totals.device_allocated, figures.totals.device_reserved = 8 * 2 ^ 20, 16 * 2 ^ 20
  local gpu = table.concat(lines(figures, planned, 1, "at the end"), "\n")
  check(gpu == table.concat({ "memory at the end, at the peak of rank 1; MiB",
    "  weights                     1.0    25.0 %", "  scripts                     1.0    25.0 %",
    "  explained                   2.0    50.0 %", "  the kernel counts           4.0   100.0 %  "
      .. "anonymous and shared, above 8.0 after start-up",
    "on its GPU, at the peak of that; MiB; last column: the plan", "  weights                     "
      .. "6.0    75.0 %        3.0", "  logits                      2.0    25.0 %        0.0",
    "  explained                   8.0   100.0 %        3.0", "  the allocator counts        8.0  "
      .. " 100.0 %  of tensors; 16.0 with what it keeps" }, "\n"), gpu)
end

-- Which gradients exist at which time in a step.
function sections.moments()
  local f = facts { tokens = 8192 }
  near("logits: the head's gradient", moment(f, "logits").parts.gradients, 4 * SHAPE.head)
  near("top block: the head's gradient", moment(f, "top block").parts.gradients, 4 * SHAPE.head)
  near("first block: all but the embedding's and its own", moment(f, "first block").parts.gradients,
    4 * (P - SHAPE.embedding - SHAPE.blocks / 20))
  near("step: all", moment(f, "step").parts.gradients, 4 * P)
  near("a later micro-batch", moment(facts { tokens = 8192, micro_batches = 2 },
    "top block").parts.gradients, 4 * P)
  check(memory.predict(facts { tokens = 256 }).moment == "embedding", "a short sequence's peak is ",
    memory.predict(facts { tokens = 256 }).moment)
  check(memory.predict(facts { tokens = 2 ^ 18 }).moment == "top block",
    "a long sequence's peak is ", memory.predict(facts { tokens = 2 ^ 18 }).moment)
  local found = memory.predict(facts { tokens = 2 ^ 18, sp = 4 })
  local sum = 0
  for _, part in ipairs(memory.parts) do sum = sum + found.parts[part] end
  near("the sum of the parts", found.total, sum)
  for _, each in ipairs(found.moments) do
    check(each.total <= found.total, each.name, " is above the peak")
  end
end

-- The temporary memory of a block: the gradient of the hidden states, a tile of rows, and the
-- gradients of the block's weights.
function sections.blocks()
  local tokens, sp, learning = 2 ^ 17, 8, SHAPE.blocks / 20
  local rows = tokens / sp
  local row = 4 * (5 * 5504 + 7 * 2048 + 2048)
  -- Weights whose gradients exist: `after`: all but q, k and v; `mlp`: also without attention's
  -- output matrix.
  local after = learning - (16 + 8) * 128 * 2048
  local mlp = after - 16 * 128 * 2048
  local small = 128 * 4 + 4 * 8 + 4 -- per token: rotary tables, ids etc.
  local function nearest(what, got, ...)
    local best = math.huge
    for _, wanted in ipairs { ... } do
      best = math.abs(got - wanted) < math.abs(got - best) and wanted or best
    end
    near(what, got, best)
  end
  for _, precision in ipairs { "fp32", "bf16" } do
    local e = precision == "bf16" and 2 or 4
    local f = facts { tokens = tokens, sp = sp, strategy = "ulysses", precision = precision }
    local stream = rows * (2048 * 4 + small) + (e == 2 and 2 * learning or 0)
    -- The second of two tiles of 8192 rows: gate, up and their gradients; the hidden states, the
    -- result, the MLP's input and, in the products' dtype, its result's gradient; all gradient
    -- sums, in fp32.
    local tile = rows / 2 * (4 * e * 5504 + 12 * 2048) + 4 * after
    -- The greater of two times: the tile's, or attention's backward, in which the sums exist.
    nearest(precision .. ": a block", moment(f, "top block").parts.block, stream + tile,
      stream + 4 * after)
  end
  local tiles = math.ceil(rows / 512) -- 64 MiB would have fewer rows
  local cpu = moment(facts { tokens = tokens, sp = sp, strategy = "ulysses", device = "cpu" },
    "top block").parts.block
  nearest("a CPU's block", cpu, rows * 2048 * 4 + rows / tiles * row + (4 + 4) * learning,
    rows * 2048 * 4 + 4 * learning)
  -- With a single tile, only the gradient sum of the last matrix exists.
  local function one_tile(what, of_row, changes)
    changes.tokens = 4096
    near(what, moment(facts(changes), "top block").parts.block,
      4096 * (2048 * 4 + small + of_row) + 4 * mlp / 3 / (changes.model or { experts = 1 }).experts)
  end
  one_tile("one tile", 4 * 4 * 5504 + 12 * 2048, {})
  -- A mixture of 8 experts, 2 per token: the rows of two experts, four times the rows that are
  -- sent, and the gradient sum of the first expert.
  local mixture = setmetatable({ experts = 8, chosen = 2, tile_factor = 4 }, { __index = SHAPE })
  one_tile("a mixture", (2 + 2 / 8) * 4 * 5504 + (12 + 4 * 2 * 4) * 2048, { model = mixture })
  -- With few tokens, the gradients of all the block's weights dominate. Further terms: the
  -- gradients of the block's result, of the hidden states after attention, and of q, k and v; and
  -- the normalized rows.
  near("few tokens", moment(facts { tokens = 100 }, "top block").parts.block,
    100 * (2 * 2048 * 4 + small + 4 * 2048 + 4 * (16 + 8) * 128) + 4 * learning)
  -- DoRA computes W + s B A for 2^24 elements at a time.
  local lora = { learns = { embedding = 0, head = 0, blocks = 0 }, adapter = 1, tokens = 1024 }
  local dora = setmetatable({ dora = 2 ^ 25 }, { __index = lora })
  near("DoRA's norms", moment(facts { tokens = 1024, learns = lora.learns, adapter = 0,
    dora = 2 ^ 25 }, "top block").parts.block,
    1024 * (2048 * 4 + small) + 1024 * (5 * 4 * 5504 + 3 * 4 * 2048) + 4 * 2 ^ 24)
  near("an adapter's rows", moment(facts { tokens = 1024, learns = lora.learns, adapter = 1,
    dora = dora.dora }, "top block").parts.attention
    - moment(facts { tokens = 1024, learns = lora.learns }, "top block").parts.attention,
      1024 * 4 * (2048 + (16 + 8) * 128))
  -- Each thread of a CPU has its own gradients of keys and values.
  local on_cpu, on_gpu = facts { tokens = tokens, device = "cpu" }, facts { tokens = tokens }
  on_gpu.kernels = "none"
  near("key sums", moment(on_cpu, "top block").parts.attention - moment(on_gpu,
    "top block").parts.attention, tokens * 2 * 4 * 128 * 4)
  near("on disk", moment(facts { tokens = tokens, activation_offload = "disk" },
    "top block").parts.checkpoints, tokens * 2048 * 4)
  -- With ZeRO-3, two whole blocks exist in addition to the shards.
  near("gathered", moment(facts { zero_stage = 3 }, "top block").parts.weights,
    4 * P / 8 + 2 * 4 * learning)
end

-- Activations that are stored for the backward.
function sections.activations()
  local tokens, sp = 2 ^ 17, 4
  local input = tokens / sp * 2048 * 4
  for _, strategy in ipairs { "ulysses", "zigzag-ring", "all-gather" } do
    near("checkpoints of " .. strategy, moment(facts { tokens = tokens, sp = sp,
      strategy = strategy }, "top block").parts.checkpoints, 20 * input)
  end
  near("with the last block's output", moment(facts { tokens = tokens, sp = sp },
    "logits").parts.checkpoints, 21 * input)
  near("at the first block", moment(facts { tokens = tokens, sp = sp },
    "first block").parts.checkpoints, input)
  near("trainable layers", moment(facts { tokens = tokens, sp = sp, depth = 2 },
    "top block").parts.checkpoints, 2 * input)
  local lean = facts { tokens = tokens, sp = sp, activation_offload = "cpu" }
  near("on their way out, the last one's result among them", moment(lean,
    "logits").parts.checkpoints, 3 * input)
  near("offloaded", moment(lean, "top block").parts.checkpoints, 2 * input)
  near("to the host", memory.predict(lean).host, 21 * input)
  local kept = tokens / sp * 16 * (4 * 128 + 4) -- out and lse
  near("selective", moment(facts { tokens = tokens, sp = sp, recompute = "selective" },
    "top block").parts.checkpoints, 20 * (input + kept))
  local none = moment(facts { tokens = tokens, sp = sp, recompute = "none" },
    "top block").parts.checkpoints
  -- Expected without recomputation: the hidden states twice and once normalized; gate and up; q, k,
  -- v and attention's saved tensors.
  local graph = tokens / sp * 4 * (3 * 2048 + 2 * 5504 + (16 + 2 * 4) * 128) + kept
  near("none", none, 20 * graph)
  local mixed = facts { tokens = tokens, sp = sp, whole_layers = 5, selective_layers = 7 }
  near("some of each", moment(mixed, "top block").parts.checkpoints,
    5 * graph + 7 * kept + 15 * input)
  near("the first of them", moment(mixed, "first block").parts.checkpoints, graph)
  local away = facts { tokens = tokens, sp = sp, recompute = "selective",
    activation_offload = "cpu" }
  near("what attention keeps is offloaded too", moment(away, "top block").parts.checkpoints,
    2 * (input + kept))
  -- In bf16 the graph also stores the weights in the products' dtype and attention's converted
  -- inputs.
  local narrow = moment(facts { tokens = tokens, sp = sp, recompute = "none", precision = "bf16" },
    "top block").parts.checkpoints
  local of_bf16 = tokens / sp * (2 * 2048 * 4 + 2 * (2048 + 2 * 5504 + (
    16 + 2 * 4) * 128 + 16 * 128)) + kept + 2 * SHAPE.blocks / 20
  near("none, in bf16", narrow, 20 * of_bf16)
  -- Logits are computed in chunks. (Without chunks they would take 14 bytes each.)
  for _, precision in ipairs { "fp32", "bf16" } do
    -- Logits in the product's dtype, 4096 rows at a time.
    local of_row, chunk_rows = 32000 * (precision == "bf16" and 2 or 4), 4096
    -- Expected: the hidden states and their gradient; both again for a chunk's rows, in bf16 also
    -- in the products' dtype; and the head in the products' dtype.
    near("a chunk in " .. precision, moment(facts { tokens = tokens, precision = precision },
      "logits").parts.logits,
      2 * tokens * 2048 * 4 + chunk_rows * (of_row + 2048 * (precision == "bf16" and 10 or 8)) + (
        precision == "bf16" and 2 * 32000 * 2048 or 0))
  end
  near("whole logits", moment(facts { tokens = tokens, logits = "whole" }, "logits").parts.logits,
    14 * tokens * 32000 + 2 * tokens * 2048 * 4)
end

-- recompute: auto stores as many layers as fit: one more would not. All layers are stored if there
-- is enough memory, and none if there is too little.
function sections.automatic()
  for _, case in ipairs { { 0, 0 }, { 0, 9 }, { 0, 20 }, { 3, 17 }, { 20, 0 } } do
    local f = facts { tokens = 2 ^ 17, sp = 4 }
    local bytes = memory.predict(facts { tokens = 2 ^ 17, sp = 4, whole_layers = case[1],
      selective_layers = case[2] }).total
    local whole, selective = require("moonring.plan.recompute").layers(f, bytes)
    check(whole == case[1] and selective == case[2], "expected ", case[1], " and ", case[2],
      " layers, got ", whole, " and ", selective)
  end
  local c = { recompute = "auto" }
  local said = require("moonring.plan.recompute").settle(c, facts { tokens = 1024 }, 80e9)
  check(c.whole_layers == 20 and c.selective_layers == 0, "a short sequence keeps everything, got ",
    c.whole_layers, " and ", c.selective_layers)
  check(said == "recompute: auto: of 20 layers 20 keep everything, 0 attention's result; the "
    .. "others are recomputed", said)
  check(require("moonring.plan.recompute").settle({ recompute = "block" }, facts {}, 80e9) == nil,
    "block is left alone")
end

-- Predictions are monotonic: more tokens never take less memory, more sp ranks never take more, and
-- a measure that extends a weaker one never takes more.
function sections.growth()
  for _, strategy in ipairs { "ulysses", "zigzag-ring", "all-gather", "usp", "double-ring", "ring",
    "auto" } do
    local last = 0
    for power = 6, 24 do
      local total = memory.predict(facts { tokens = 2 ^ power, sp = 8, strategy = strategy }).total
      check(total >= last, strategy, ": 2^", power, " tokens take less than half of them")
      last = total
    end
    local one, eight = memory.predict(facts { tokens = 2 ^ 20 }).total,
      memory.predict(facts { tokens = 2 ^ 20, sp = 8, strategy = strategy }).total
    check(eight < 0.5 * one, strategy, ": 8 ranks take ", eight / one, " of one")
  end
  for stage = 1, 3 do
    check(memory.predict(facts { zero_stage = stage }).total < memory.predict(
      facts { zero_stage = stage - 1 }).total, "stage ", stage, " takes no less than ", stage - 1)
  end
end

-- The longest length that fits does fit, and the next longer one does not.
function sections.longest()
  for _, gib in ipairs { 20, 24, 80 } do
    local f, bytes = facts { sp = 8, zero_stage = 3, precision = "bf16" }, gib * 2 ^ 30
    local most = memory.longest(f, bytes, 1024)
    local function total(tokens)
      return memory.predict(setmetatable({ tokens = tokens }, { __index = f })).total
    end
    check(most > 0 and most % 1024 == 0 and total(most) <= bytes and total(most + 1024) > bytes,
      gib, " GiB: ", most, " tokens take ", total(most))
  end
  near("nothing fits", memory.longest(facts {}, 2 ^ 30, 1024), 0)
end

-- The facts of a configuration, for a checkpoint of which only config.json is read.
function sections.facts()
  local checkpoint = moonring.model.open_config(folder .. "/config.json")
  local m = model_shape.of(checkpoint)
  local total = 0
  for _, part in ipairs(checkpoint:parts()) do total = total + part.parameters end
  near("parameters", m.embedding + m.head + m.blocks, total)
  local function run(...)
    return memory_facts.run(moonring.config.load(nil, { ... }), checkpoint,
      { ranks = 4, device = "cpu", machine = 4 })
  end
  local one = run("cutoff_len=100", "per_device_train_batch_size=3",
    "gradient_accumulation_steps=2", "finetuning_type=full")
  near("tokens", one.tokens, 300)
  near("micro-batches", one.micro_batches, 2)
  near("trainable parameters", one.learns.embedding + one.learns.head + one.learns.blocks, total)
  near("an example alone", run("cutoff_len=100", "micro_batch_tokens=50").tokens, 100)
  near("a pair", run("cutoff_len=100", "stage=dpo", "per_device_train_batch_size=1").tokens, 200)
  check(run("stage=dpo", "finetuning_type=full").reference and not run("stage=dpo").reference
    and not run("stage=dpo", "finetuning_type=full", "precompute_ref_log_probs=true").reference,
    "references")
  local lora, maps = run("lora_rank=4"), 0
  for _, map in ipairs(checkpoint:linear_maps()) do maps = maps + 4 * (map.rows + map.columns) end
  near("an adapter", lora.adapter, maps)
  local pissa, turned = run("lora_rank=4", "pissa_init=true"), 0
  near("PiSSA's first values", pissa.first, maps)
  near("in the weights", memory.predict(pissa).total - memory.predict(lora).total, 4 * maps)
  for _, map in ipairs(checkpoint:linear_maps()) do
    local size = moonring.model.rotated_block(map.columns, 0, 16)
    turned = turned + map.columns * (size - 1) / 2
  end
  near("an orthogonal adapter", run("finetuning_type=oft", "oft_block_size=16").adapter, turned)
  near("beside it", lora.learns.blocks + lora.learns.embedding + lora.learns.head, 0)
  local freeze = run("finetuning_type=freeze", "freeze_trainable_layers=1")
  near("a layer", freeze.learns.blocks, m.blocks / m.layers)
  near("depth", freeze.depth, 1)
  near("from the bottom", run("finetuning_type=freeze", "freeze_trainable_layers=-1").depth,
    m.layers)
  local short = memory_facts.run(moonring.config.load(nil,
    { "cutoff_len=100", "per_device_train_batch_size=3" }), checkpoint,
    { ranks = 1, device = "cpu", longest = 20 })
  near("short documents", short.tokens, 60)
  local whole = moonring.model.open(folder)
  local function mapped(...)
    return memory_facts.run(moonring.config.load(nil, { ... }), whole,
      { ranks = 1, device = "cpu" }).mapped
  end
  near("a file in the weights' own dtype", mapped(), 0)
  near("a file in another", mapped "pure_bf16=true", whole:facts().bytes)
  local function of_file(...)
    return memory.predict(memory_facts.run(moonring.config.load(nil, { ... }), whole,
      { ranks = 1, device = "cpu" })).mapped
  end
  near("weights that are all trained", of_file "finetuning_type=full", 0)
  near("frozen ones", of_file "finetuning_type=lora", 4 * total)
  near("frozen ones that are cast", of_file("finetuning_type=lora", "bf16=true"), 0)
  near("a reference", of_file("finetuning_type=full", "stage=dpo"), 4 * total)
  check(run("recompute=block", "disable_gradient_checkpointing=true").recompute == "none",
    "disable_gradient_checkpointing")
  -- Keys of runs with several ranks.
  local c = moonring.config.load(nil, { "sequence_parallel_size=2" })
  c.zero_stage, c.zero_group, c.activation_offload, c.offload_optimizer = 2, "sp", "disk", "none"
  local f = memory_facts.run(c, checkpoint, { ranks = 4, device = "cpu" })
  check(f.zero_stage == 2 and f.zero_ranks == 2 and f.activation_offload == "disk"
    and f.offload_optimizer == nil, "sharding and offload")
end

-- The prediction offloads the same activations as a model with activation_offload, on each device.
function sections.offload()
  local checkpoint = moonring.model.open(folder)
  for _, device in ipairs { "cpu", "cuda" } do
    for _, offload in ipairs { "nothing", "cpu", "disk" } do
      local words = { "cutoff_len=100000" }
      if offload ~= "nothing" then words[2] = "activation_offload=" .. offload end
      local c, what = moonring.config.load(nil, words), offload .. " on " .. device
      local ok, place = pcall(moonring.model.activation_place, c.activation_offload, device)
      local told, f = pcall(memory_facts.run, c, checkpoint, { ranks = 1, device = device })
      check(ok == told and ok == (what ~= "disk on cuda"), what, ": ", place, "; ", f)
      if ok and told then
        f.depth = 100 -- the inputs of some layers are not offloaded
        local found = memory.predict(f)
        check((found.host > 0) == (place == "host") and (found.disk > 0) == (place == "disk"), what,
          ": ", place, ", predicted ", found.host, " on the host and ", found.disk, " on disk")
        check((f.idle_offload ~= nil) == (what == "cpu on cpu"), what, ": said: ", f.idle_offload)
        local proposed = {}
        for _, measure in ipairs(measures.of(f)) do
          proposed[#proposed + 1] = words_of(measure)
        end
        local all = table.concat(proposed, "; ")
        local wanted = device == "cpu" and "activation_offload: disk" or "activation_offload: cpu"
        check((all:find(wanted, 1, true) ~= nil) == (place == "memory"), what, ": ", all)
      end
    end
  end
  -- A model's store for offloaded activations is created for the device to which the model is
  -- loaded.
  local ok, why = pcall(moonring.model.load, checkpoint,
    { device = "cuda", activation_offload = "disk", activation_dir = "." })
  check(not ok and tostring(why):find("disk is for the CPU alone", 1, true), "disk on a GPU: ", why)
end

-- The proposed configuration fits, and has the smallest number of ranks that can fit.
function sections.plans()
  for _, gib in ipairs { 6, 12, 24, 80 } do
    local f, bytes = facts { tokens = 2 ^ 18, alone = 2 ^ 17, step = 2 ^ 18, precision = "bf16",
      sp = 1, options = {} }, gib * 2 ^ 30
    local rows = plan.rows(f, bytes)
    local best = plan.propose(rows)
    for _, row in ipairs(rows) do
      check(row.fits == (row.found.total <= bytes), words_of(row.measure), ": fits")
      check(not best or not row.fits or row.sp >= best.sp, gib, " GiB: sp ", row.sp, " fits, ", best
        and best.sp, " was proposed")
    end
    local in_memory = plan.propose_in_memory(rows)
    check(not in_memory or (in_memory.fits and not words_of(in_memory.measure):find "offload"
      and in_memory.sp >= best.sp), gib, " GiB: in memory")
    if best then
      local again = { tokens = 2 ^ 18, alone = 2 ^ 17, step = 2 ^ 18, precision = "bf16",
        sp = best.sp, options = {} }
      for _, line in ipairs(plan.keys(best, f)) do
        local key, value = line:match "^([%w_]+): (.+)$"
        if key == "micro_batch_tokens" then
          again.tokens, again.micro_batches = tonumber(value),
            again.step / tonumber(value) else again[key] = tonumber(value) or value
        end
      end
      again.sequence_parallel_size = nil
      near(gib .. " GiB: the keys that are proposed", memory.predict(facts(again)).total,
        best.found.total)
    else
      check(gib == 6, gib, " GiB: nothing is proposed")
    end
  end
  local alone = measures.of(facts { ranks = 1, zero_ranks = 1 })
  for _, measure in ipairs(alone) do
    check(not words_of(measure):find "zero", "ZeRO on one rank: ", words_of(measure))
  end
  check(#alone[1].keys == 0 and words_of(alone[2]) == "activation_offload: cpu",
    "measures of one rank begin with ", words_of(alone[2]))
  check(words_of(measures.of(facts { device = "cpu" })[5]) == "activation_offload: disk",
    "a CPU offloads to disk, not ", words_of(measures.of(facts { device = "cpu" })[5]))
  near("sizes", #plan.sizes(12), 6)
  -- A ring of 8 ranks reduces 4 bytes per parameter; each rank sends 2 x 7/8 of them.
  near("gradients that are sent", communication.step(facts { sp = 8 }).states, 2 * 7 / 8 * 4 * P)
  local function sent(changes)
    changes.micro_batches = 3
    return communication.step(facts(changes)).states
  end
  near("stage 1", sent { zero_stage = 1 }, 7 / 8 * (4 + 4) * P)
  near("stage 2", sent { zero_stage = 2, precision = "bf16" }, 7 / 8 * (3 * 4 + 2) * P)
  near("stage 3", sent { zero_stage = 3, precision = "bf16" },
    7 / 8 * 3 * (4 * P + 2 * (2 * SHAPE.blocks + SHAPE.embedding + 2 * SHAPE.head)))
  near("stage 1 in groups of 4", sent { zero_stage = 1, zero_ranks = 4 },
    3 / 4 * (4 + 4) * P + 2 * 1 / 2 * 4 * P / 4)
  near("one rank", sent { ranks = 1, zero_ranks = 1 }, 0)
  near("over links", communication.seconds(facts {}, 1e9, 1e8), 2 * 7 / 8 * 4 * P / 1e9)
  near("between machines", communication.seconds(facts { machine = 4 }, 1e9, 1e8),
    2 * 7 / 8 * 4 * P / 1e8)
end

-- Layers other than softmax attention, in closed form: per token the delta rule stores 2 C + 3 V
-- numbers (C, V: channels of the convolution and of the values), a state for each 64 tokens, and
-- decays; a short convolution stores 6 channels.
function sections.mixing()
  local K, H, d, v, tokens = 16, 32, 128, 64, 8192
  local model = setmetatable({ attending = 5, delta = { layers = 12, key_heads = K,
    value_heads = H, key_dim = d, value_dim = v, taps = 4 }, convolution = { layers = 3,
    channels = 2048, taps = 3 } }, { __index = SHAPE })
  local C, V = 2 * K * d + H * v, H * v
  local sizes = { fp32 = { e = 4, w = 4, a = 4, g = 4 }, bf16 = { e = 2, w = 4, a = 4, g = 4 } }
  for _, sp in ipairs { 1, 4 } do
    local t = tokens / sp
    for _, precision in ipairs { "fp32", "bf16" } do
      local label = ("sp %d, %s: "):format(sp, precision)
      local f = facts { model = model, tokens = tokens, sp = sp, precision = precision,
        device = "cpu" }
      local e = sizes[precision].e
      local delta = mixing_bytes.delta(f, sizes[precision])
      near(label .. "the rule's graph", delta.waiting,
        t * ((2 * C + 3 * V) * e + H * (8 * 4 + 2 * e)) + t / 64 * H * d * v * 4)
      check(delta.attention > delta.waiting + t * (C + V) * e, label, "no work in its backward")
      near(label .. "a convolution's graph", mixing_bytes.convolution(f, sizes[precision]).waiting,
        6 * t * 2048 * e)
      -- A block's backward takes the memory of the kind of mixer that needs most.
      local function top(mixers)
        return moment(facts { model = setmetatable(mixers, { __index = SHAPE }), tokens = tokens,
          sp = sp, precision = precision, device = "cpu" }, "top block").total
      end
      local alone = { top { delta = model.delta }, top { convolution = model.convolution },
        top {} }
      near(label .. "the top block", moment(f, "top block").total, math.max(unpack(alone)))
      check(alone[1] > alone[2] and alone[1] > alone[3], label, "the rule takes nothing")
      -- Expected if the graph is stored: the tensors that a layer keeps until the backward.
      local function kept(changes)
        changes.model, changes.tokens, changes.sp = changes.model or model, tokens, sp
        changes.precision, changes.recompute, changes.device = precision, "none", "cpu"
        return moment(facts(changes), "logits").parts.checkpoints
      end
      local more = setmetatable({ delta = setmetatable({ layers = 13 }, { __index = model.delta }),
        attending = 4 }, { __index = model })
      local attention = attention_bytes.memory { tokens = tokens, sp = sp, heads = 16,
        kv_heads = 4, head_dim = 128, contexts = sp, head_ranks = 1, keys = "ring",
        element_bytes = e, sum_bytes = 4, device = "cpu" }
      local of_attention = t * model_shape.rows(SHAPE) * e + attention.kept
        + (e == 2 and t * 16 * 128 * e or 0)
      near(label .. "one more layer of it", kept { model = more } - kept {},
        delta.waiting - of_attention, 1e-6)
    end
  end
  -- Bytes sent: with two documents, one per rank, only head exchanges send data; with one document,
  -- it depends on the layout.
  local function sent(changes)
    changes.model, changes.tokens, changes.sp = model, tokens, 2
    return communication.step(facts(changes))
  end
  local whole = sent { mixing = "spans", sequences = 2, strategy = "ulysses" }
  check(whole.mode == "spans" and whole.mixing == 0, "whole documents send ", whole.mixing)
  check(sent({ mixing = "heads", sequences = 2, strategy = "ulysses" }).mixing > 0,
    "by heads whole documents send nothing")
  -- Expected for one document over two ranks: a state in each direction, and three rows of halo;
  -- two rows for a short convolution.
  local one = sent { mixing = "relay", strategy = "ring", recompute = "none" }
  near("one cut", 2 * one.mixing, 12 * 2 * (H * d * v * 4 + 3 * C * 4) + 3 * 2 * 2 * 2048 * 4)
  near("made again", sent({ mixing = "relay", strategy = "ring" }).mixing, 1.5 * one.mixing)
  near("with a reference", sent({ mixing = "relay", strategy = "ring",
    reference = true }).mixing, 2 * one.mixing)
  local plain = communication.step(facts { sp = 2 })
  check(plain.mixing == 0 and plain.mode == nil, "a model without mixers sends ", plain.mixing)
end

-- A run is rejected if the prediction exceeds the memory by more than its stated error. Within the
-- error there is a warning, below it there is none.
function sections.judgements()
  local f = facts { tokens = 2 ^ 17, alone = 2 ^ 17, step = 2 ^ 17, sp = 4, options = {} }
  local total = memory.predict(f).total
  local function facts_with(changes) return setmetatable(changes, { __index = f }) end
  local function judged(part)
    local verdict, words = memory_check.judge(f, total * part, facts_with)
    return verdict, words or ""
  end
  check(judged(1.2) == nil, "a fifth of room is judged ", judged(1.2))
  check(judged(1.0) == "warn", "no room is judged ", judged(1.0))
  local verdict, words = judged(0.8)
  -- Expected: 18 bytes per parameter, over the 8 ranks of a host.
  local away = facts { precision = "bf16", zero_stage = 3, offload_optimizer = "cpu" }
  check(memory_check.judge_host(away, 8, 18 * P) == nil
    and memory_check.judge_host(f, 8, 0) == nil, "a host with room is too small")
  check((memory_check.judge_host(away, 8, 6 * P) or ""):find("of the host's memory", 1,
    true), "a host with half the room will do")
  check(verdict == "refuse" and words:find("predicted to need", 1, true)
    and words:find("optimizer ", 1, true) and words:find("zero_stage: 1", 1, true)
    and not words:find "\n", words)
end

-- Predictions for published settings are close to the published memory, and never below two thirds
-- of it, because they exclude the allocator's overhead.
function sections.published()
  for name, parameters in pairs { ["Qwen2.5-7B"] = 7615616512, ["Llama-3.1-8B"] = 8030261248 } do
    local model = published.models[name]
    near(name, model.embedding + model.head + model.blocks, parameters)
  end
  for _, of in ipairs(published.tables) do
    for _, row in ipairs(of.rows) do
      local r = plan_tables.row(of, row)
      check(r.predicted >= 0.95 * r.theirs and r.predicted <= 2 * r.theirs, of.title, ": ",
        row.model, ", sp ", row.sp, ": predicted ", r.predicted, ", published ", r.theirs)
      check(r.offloading > r.ours, of.title, ": ", row.model, ": offload makes it no longer")
    end
  end
end

-- Parses sizes and link speeds as users write them.
function sections.sizes()
  near("80GiB", machine.bytes("80GiB", "memory"), 80 * 2 ^ 30)
  near("500MB", machine.bytes("500MB", "memory"), 5e8)
  near("1.5 tb", machine.bytes("1.5 tb", "memory"), 1.5e12)
  for _, text in ipairs { "abc", "80", "GiB", "-1GB", "0GB", "80GiBs", "" } do
    local ok, message = pcall(machine.bytes, text, "memory")
    check(not ok and tostring(message):find("memory: expected a size such as 80GiB", 1, true), "'",
      text, "' is taken: ", message)
  end
  near("12.5", machine.link("12.5", "link"), 12.5e9)
  near("nvlink", machine.link("nvlink", "link"), 2e11)
  local ok, message = pcall(machine.link, "nvlnk", "link")
  check(not ok and message:find("link: expected GB/s or one of ", 1, true)
    and message:find("did you mean 'nvlink'?", 1, true), message)
  check(machine.show(2 ^ 30) == "1.0 GiB" and machine.show(150 * 2 ^ 30) == "150 GiB"
    and machine.show(5e5) == "0.5 MiB", "sizes for people")
  local host = machine.host_memory()
  check(host.total > 2 ^ 27 and host.available > 0 and host.available <= host.total,
    "this machine has ", host.available, " of ", host.total)
end

sections[section]()
if #failures > 0 then
  error(#failures .. " differences:\n" .. table.concat(failures, "\n", 1, math.min(#failures, 30)),
    0)
end
