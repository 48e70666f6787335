--- moonring -n SP loss_contract.lua sp=SP model=DIR: in fp64, on short documents and on one that
-- two ranks share, each wrong loss is refused by name, each right one is accepted, and gradients
-- equal finite differences of the loss along a random direction of all weights.
local moonring = require "moonring"
local opt = moonring.flags { sp = 1, model = moonring.required }
local mesh = moonring.comm.mesh { sp = opt.sp }
local own = dofile(arg[0]:match "^(.*/)" .. "custom_objectives.lua")
local policy = moonring.model.load(moonring.model.open(opt.model), { precision = "fp64" })
local attention = moonring.attention.create { mesh = mesh, strategy = "zigzag-ring" }
local extra = moonring.comm.parameter("extra", moonring.ones({ 1 }, { dtype = "fp64" }))

local function always(value) return function() return value end end

-- A step of one micro-batch with documents of these lengths.
local function step_of(lengths)
  local documents, flat, counts, examples = {}, {}, {}, {}
  for d, length in ipairs(lengths) do
    documents[d], counts[d], examples[d] = {}, 1, d - 1
    for i = 1, length do
      documents[d][i] = (i * 7 + d * 3) % 60 + 3 -- not the padding id 2, whose row has no gradient
      flat[#flat + 1] = documents[d][i]
    end
  end
  local micro = { sequence = always(moonring.comm.sequence { documents = documents }),
    labels = always(moonring.tensor(flat, "int64")), examples = always(examples),
    places = always(examples), document_counts = always(counts), desirable = always(nil) }
  return { size = always(#lengths), micro_batches = always { micro },
    mismatched = always {} }
end

local short, long = step_of { 5, 4, 6 }, step_of { 170, 9 }

local function engine_of(objective)
  if type(objective) == "function" then objective = objective(policy) end
  objective.count = objective.count or function(batch) return batch:count_targets() end
  return moonring.engine.new { mesh = mesh, model = policy, attention = attention,
    objective = objective }
end

local function clear() policy:parameters():clear_gradients() end

-- The wrong losses: a part of the message, and the loss.
local function tokens(loss) return { level = "token", loss = loss } end
local function sequence(loss)
  return { level = "sequence", loss = loss, values = function(batch, hidden)
    return batch:token_log_probs(policy, hidden)
  end }
end

local WRONG = {
  { "a sum over the sp group", tokens(function(batch, log_probs)
    return batch:document_sums(log_probs):sigmoid():sum()
  end) },
  { "a sum over the sp group", tokens(function(batch, log_probs)
    local means = batch:sum(log_probs:sum()) / 9
    return (log_probs * means:exp()):sum()
  end) },
  { "a sum over the sp group", tokens(function(batch, log_probs)
    local weights = batch:per_token(batch:document_sums(log_probs):exp())
    return -(weights * log_probs):sum() + 0.1 * batch:document_sums(log_probs):sum()
  end) },
  { "the argument of batch:spread or batch:per_token must", tokens(function(batch, log_probs)
    return (batch:spread(log_probs:sum()) * log_probs):sum()
  end) },
  { "the result of batch:spread or batch:per_token is a value", tokens(function(batch, log_probs)
    local weights = batch:per_token(batch:document_sums(log_probs))
    return (batch:spread(weights:sum()) * log_probs):sum()
  end) },
  { "without a sum over the sp group", sequence(function(_, log_probs)
    return -log_probs:sum()
  end) },
  { "without a sum over the sp group", sequence(function(batch, log_probs)
    return batch:document_sums(log_probs):sigmoid():sum() + 0.1 * log_probs:square():sum()
  end) },
  { "without a sum over the sp group", sequence(function(batch, log_probs)
    return batch:gather(log_probs):square():sum()
  end) },
  { "the result of batch:spread or batch:per_token is a value", sequence(function(batch, log_probs)
    return batch:per_token(batch:document_sums(log_probs)):sum()
  end) },
  { "the parameter extra is used after the sum", sequence(function(batch, log_probs)
    return (batch:document_sums(log_probs) * extra:use()):sum()
  end) },
  { "in its metric share", sequence(function(batch, log_probs)
    return batch:document_sums(log_probs):sum(), { share = { log_probs:sum(), 1 } }
  end) },
  { "in its metric whole", tokens(function(batch, log_probs)
    return log_probs:sum(), { whole = { batch:document_sums(log_probs):sum(), 1 } }
  end) },
}

-- After a gather the node exists on several ranks only, and the message names it there.
local function is_refused(words, message)
  return message:find(words, 1, true)
    or opt.sp > 1 and message:find("the result of batch:gather is a value", 1, true)
end

for i, wrong in ipairs(WRONG) do
  for _, step in ipairs { short, long } do
    local done, why = pcall(function() engine_of(wrong[2]):backward(step, 1) end)
    assert(not done, "wrong loss " .. i .. " was accepted")
    local message = tostring(why)
    assert(is_refused(wrong[1], message), i .. ": " .. message)
    assert(message:find "loss_contract.lua:%d+: objective: level = ", message)
    clear()
  end
end

-- The right losses.
local RIGHT = {
  per_token = own.per_token,
  per_token_sequence = own.per_token_sequence,
  exchanged = own.exchanged,
  detached = tokens(function(batch, log_probs)
    local weights = (batch:document_sums(log_probs:detach()) * 0.01):tanh():sum()
    return (log_probs * weights):sum(), { weight = { weights, 1 },
      most = { batch:document_sums(log_probs):max(), 1, "max" } }
  end),
  -- A parameter after a sum: on one rank.
  parameter = tokens(function(batch, log_probs)
    local spread = batch:spread(batch:document_sums(log_probs) * 0.01)
    local loss = (spread * extra:use()):tanh():sum()
    return (mesh:sp_rank() == 0 and 1 or 0) * loss
  end),
}
RIGHT.parameter.parameters = moonring.comm.parameters { extra }

-- Moves all weights along the direction.
local function move(list, direction, by)
  for name, parameter in pairs(list) do
    parameter:copy_(parameter:weight() + direction[name] * by)
  end
end

local function by_name(engine)
  local list, direction = {}, {}
  for i, parameter in ipairs(engine.parameters:list()) do
    list[parameter:name()] = parameter
    direction[parameter:name()] = moonring.randn(parameter:shape(),
      { seed = 5, step = i, dtype = "fp64" })
  end
  return list, direction
end

for _, name in ipairs { "per_token", "per_token_sequence", "exchanged", "detached", "parameter" } do
  for _, step in ipairs { short, long } do
    local engine = engine_of(RIGHT[name])
    local list, direction = by_name(engine)
    engine.parameters:clear_gradients()
    engine:backward(step, 1)
    local along = 0
    for each, parameter in pairs(list) do
      local gradient = parameter:gradient()
      if gradient then along = along + (gradient * direction[each]):sum():item() end
    end
    local function loss_at(by)
      move(list, direction, by)
      engine.parameters:clear_gradients()
      local loss = engine:backward(step, 1)
      move(list, direction, -by)
      return loss
    end
    local h = 1e-6
    local expected = (loss_at(h) - loss_at(-h)) / (2 * h)
    local difference = math.abs(along - expected) / math.abs(expected)
    -- The loss `detached` holds its weights constant, which finite differences do not.
    assert(name == "detached" or difference < 1e-6,
      ("%s: gradient %.12g, finite differences %.12g"):format(name, along, expected))
    if mesh:rank() == 0 then print(("%s %.3g"):format(name, difference)) end
  end
end

-- With a shared prefix, only the answers' own documents have a value.
do
  local function answer(from, length)
    local ids = {}
    for i = 1, length do ids[i] = (from + i) % 60 end
    return ids
  end
  local prefix, labels = answer(3, 140), {}
  for i = 1, #prefix do labels[i] = -100 end
  local a, b = answer(7, 130), answer(9, 8)
  local parent = { document = 1, length = #prefix }
  local shared = moonring.comm.sequence { documents = { prefix, a, b }, labels = { labels, a, b },
    parents = { [2] = parent, [3] = parent } }
  local batch = engine_of(own.token):batch { sequence = always(shared),
    document_counts = always { 2 }, examples = always { 0 }, places = always { 0 } }
  local values = moonring.tensor({ 0.5, -2 }, { dtype = "fp64", requires_grad = true })
  local each = batch:per_token(values)
  assert((each:detach() - batch:per_token { 0.5, -2 }):abs():sum():item() == 0)
  each:sum():backward()
  local counts = values:grad():tolist()
  assert(counts[1] == #a and counts[2] == #b, "a document gets the gradients of its tokens")
end
