--- Runs training steps and evaluations of small models by a plan, and writes losses, metrics and
-- gradients, which invariance_test.cc compares between ranks, strategies and packings:
--
--   moonring -n RANKS invariance.lua sp=S plan=PLAN.json out=FOLDER
--
-- The plan is a list of runs, each of which is made as scripts/train.lua does:
--   name       the gradients of the last step go to FOLDER/NAME.safetensors; all other results go
--              to FOLDER/results.json under this name
--   keys       the keys of moonring train, without sequence_parallel_size and
--              per_device_train_batch_size
--   group      per_device_train_batch_size x dp
--   accumulation  gradient_accumulation_steps; default 1
--   objective  the name of a loss of custom_objectives.lua that replaces the stage's loss
--   documents, labels, desirable: one step of these documents (in the order of a micro-batch's
--   documents) replaces the steps of the data set
--   evaluate   true: also evaluates on eval_dataset before the first step
--   vocabulary  the folder of a reference model: all losses over the vocabulary replace the
--              stage's loss
--   save       true: saves the model after the last step's update to FOLDER/NAME
local moonring = require "moonring"
local batching = require "moonring.choices.batching"
local compute = require "moonring.choices.compute"
local count = require "moonring.run.numbered_steps"
local datasets = require "moonring.data.datasets"
local noise = require "moonring.run.noise"
local optimizers = require "moonring.choices.optimizers"
local stages = require "moonring.choices.stages"
local strategies = require "moonring.choices.strategies"
local opt = moonring.flags { sp = 1, plan = moonring.required, out = moonring.required }
local mesh = moonring.comm.mesh { sp = opt.sp }

local own = dofile(arg[0]:match "^(.*/)" .. "custom_objectives.lua")

local function always(value) return function() return value end end

-- Returns some of the plan's documents as a micro-batch, in the form that data sets give.
local function micro_batch(entry, examples, width, shift)
  local documents, labels, flat, desirable, widths = {}, {}, {}, {}, {}
  for i, example in ipairs(examples) do
    widths[i], desirable[i] = width, entry.desirable and entry.desirable[example + 1]
    for d = 1, width do
      local k = (example * width + d - 1 + shift) % #entry.documents + 1
      documents[#documents + 1], labels[#labels + 1] = entry.documents[k], entry.labels[k]
      for _, label in ipairs(entry.labels[k]) do flat[#flat + 1] = label end
    end
  end
  return { sequence = always(moonring.comm.sequence { documents = documents, labels = labels }),
    labels = always(moonring.tensor(flat, "int64")),
    examples = always(examples), places = always(examples), document_counts = always(widths),
      desirable = always(desirable) }
end

-- Returns a step of the plan's documents, distributed in turn over the dp ranks. Each rank packs
-- its documents into one micro-batch, or has none.
local function custom_step(entry, c)
  local width = (c.stage == "dpo" or c.stage == "rm") and 2 or 1
  local mine, lists = {}, { {}, {} }
  for example = 0, #entry.documents / width - 1 do
    if example % mesh:dp_size() == mesh:dp_rank() then mine[#mine + 1] = example end
  end
  for shift, list in ipairs(lists) do
    for _, example in ipairs(c.micro_batch_tokens == 1 and mine or {}) do
      list[#list + 1] = micro_batch(entry, { example }, width, shift - 1)
    end
    if c.micro_batch_tokens ~= 1 and #mine > 0 then
      list[1] = micro_batch(entry, mine, width, shift - 1)
    end
  end
  return { size = always(#entry.documents / width), micro_batches = always(lists[1]),
    mismatched = always(lists[2]) }
end

local function configuration(entry)
  local words = { "sequence_parallel_size=" .. opt.sp, "per_device_train_batch_size="
    .. entry.group / mesh:dp_size(),
    "gradient_accumulation_steps=" .. (entry.accumulation or 1) }
  for name, value in pairs(entry.keys) do words[#words + 1] = name .. "=" .. tostring(value) end
  return moonring.config.load(nil, words)
end

-- An objective with all losses over the whole vocabulary, against a reference model of another
-- size; one of the losses uses only the reference's ids of highest probability.
local function vocabulary(c, policy, folder)
  local reference = moonring.model.load(moonring.model.open(folder),
    { frozen = true, precision = compute.precision(c),
      device = compute.device(c) })
  local weights = { log_probs = -1, forward = 1, reverse = 0.5, js = 0.7, top = 0.3,
    entropy = -0.1, z_loss = 0.01 }
  return {
    level = "token",
    count = function(batch) return batch:count_targets() end,
    values = function(batch, hidden)
      local other = batch:reference_hidden(reference)
      local ids, log_probs = batch:top_log_probs(reference, other, 8)
      local function divergence(kind, temperature)
        return batch:divergence(policy, hidden, { kind = kind, temperature = temperature,
          reference = reference, hidden = other })
      end
      local all = { log_probs = batch:token_log_probs(policy, hidden),
        forward = divergence "forward", reverse = divergence("reverse", 2),
        js = divergence("js", 0.5),
        top = batch:divergence(policy, hidden,
          { kind = "js", beta = 0.2, ids = ids, log_probs = log_probs }),
        entropy = batch:entropy(policy, hidden, { temperature = 1.5 }),
        z_loss = batch:z_loss(policy, hidden) }
      -- Without a target the loss has no graph, although other ranks wait for this rank in their
      -- backward.
      return batch.targets:gt(-1):to("fp64"):sum():item() > 0 and all
        or { nothing = moonring.tensor { 0 } }
    end,
    loss = function(batch, values)
      if values.nothing then return 0 end
      local sum, metrics = 0, {}
      local targets = (batch.targets:gt(-1)):to("fp64"):sum()
      for name, weight in pairs(weights) do
        local one = values[name]:sum()
        sum, metrics[name] = sum + weight * one, { one, targets }
      end
      return sum, metrics
    end,
  }
end

local function value_head_gradient(objective, states)
  local numbers = {}
  for _, parameter in ipairs(objective.parameters and objective.parameters:list() or {}) do
    local gradient = states:gradient(parameter:name())
    numbers[parameter:name()] = gradient and gradient:tolist()
  end
  return numbers
end

-- Returns the gradient's norm, which must be bit-identical on all ranks.
local function norm_of(states)
  local norm = states:norm()
  assert(mesh:max(norm) == norm and mesh:max(-norm) == -norm, "the ranks differ in their gradients")
  return norm
end

local function go(entry)
  local c = configuration(entry)
  local checkpoint = moonring.model.open(c.model_name_or_path)
  local train, eval = datasets.load(c, moonring.data.tokenizer(checkpoint))
  local zero = optimizers.zero(c, mesh)
  local policy = moonring.policy.learning(c, checkpoint, zero)
  local attention = strategies.open(c, mesh, policy)
  local numbers = batching.of(c, train:size(), mesh:dp_size())
  local objective = entry.vocabulary and vocabulary(c, policy, entry.vocabulary)
    or own[entry.objective] or stages.of(c).objective
  if type(objective) == "function" then
    objective = entry.objective and objective(policy, c) or objective(c, policy)
  end
  local runtime = moonring.engine.new { mesh = mesh, model = policy, attention = attention,
    objective = objective, group = entry.group, noise = noise.of(c) }
  local states = optimizers.states(c, zero, runtime.parameters)
  runtime.states = states
  local references = objective.needs_reference
    and require("moonring.run.reference_models").open(c, { checkpoint = checkpoint, policy = policy,
    attention = attention, mesh = mesh, zero = zero,
    datasets = { train = train, eval = eval } }) or {}
  runtime.reference = references.train
  local optimizer = optimizers.open(c, states:parameters(), zero)
  local result = { steps = {} }
  if entry.evaluate then
    result.evaluation = runtime:evaluate(eval,
      { batch = c.per_device_eval_batch_size,
      micro_batch_tokens = batching.micro_batch_tokens(c),
      reference = references.eval, accuracy = true })
  end
  local steps = entry.documents and { next = function() return #result.steps < c.max_steps
    and custom_step(entry, c) or nil end } or batching.steps(c, train, mesh, numbers)
  for step, k in count(steps) do
    if k > 1 then states:clear_gradients() end
    local loss, metrics = runtime:backward(step, k) -- nil for a step without targets
    result.steps[k] = { loss = loss or 0, metrics = metrics or {}, grad_norm = norm_of(states),
      idle = loss == nil or nil }
    if k < c.max_steps or entry.save then
      optimizer:step(c.learning_rate)
      states:publish()
    end
  end
  result.value_head = value_head_gradient(objective, states)
  local writes = { write = mesh:rank() == 0 }
  policy:save_gradients(opt.out .. "/" .. entry.name .. ".safetensors", writes)
  if entry.save then policy:save(opt.out .. "/" .. entry.name, writes) end
  return result
end

local results = {}
for _, entry in ipairs(moonring.system.json_decode(moonring.system.read(opt.plan), opt.plan)) do
  local began = moonring.system.clock()
  results[entry.name] = moonring.scope(go, entry)
  results[entry.name].seconds = moonring.system.clock() - began
  collectgarbage()
end
if mesh:rank() == 0 then
  moonring.system.write(opt.out .. "/results.json", moonring.system.json_encode(results) .. "\n")
end
mesh:barrier()
