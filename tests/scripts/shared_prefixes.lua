--- Compares steps whose documents share a common prefix with the same steps without sharing, in
-- fp64: the loss, metrics and all gradients of losses of pairs, of weighted answers in groups and
-- of a value head, under every strategy.
--
--   moonring -n RANKS shared_prefixes.lua sp=S models=FOLDER,FOLDER strategies=NAME,NAME
--       mixings=NAME,NAME
--
-- Prints for each model the greatest relative difference, and the sum of its losses.
local moonring = require "moonring"
local reference = require "moonring.run.reference"
local objectives, stages = moonring.objectives, require("moonring.choices.stages")
local opt = moonring.flags { sp = 1, models = moonring.required, strategies = "zigzag-ring",
  mixings = "auto" }
local mesh = moonring.comm.mesh { sp = opt.sp, deadline = 60 }

local function words(text)
  local list = {}
  for word in text:gmatch "[^,]+" do list[#list + 1] = word end
  return list
end

local rows -- ids of the model

local function text(first, tokens)
  local ids = {}
  for i = 1, tokens do ids[i] = (first * 31 + i * 17 + i * i) % (rows - 3) + 3 end
  return ids
end

-- Returns an answer to a prompt; only the answer has labels.
local function answered(prompt, answer)
  local ids, labels = {}, {}
  for i, id in ipairs(prompt) do ids[i], labels[i] = id, -100 end
  for _, id in ipairs(answer) do ids[#ids + 1], labels[#labels + 1] = id, id end
  return { ids = ids, labels = labels }
end

-- Returns pairs with long and short prompts, answers with a common beginning, empty answers, and
-- two different prompts.
local function pairs_of_answers()
  local function pair(prompt, a, b, other)
    return { documents = { answered(prompt, a), answered(other or prompt, b) } }
  end
  local long, short = text(1, 210), text(2, 9)
  return { pair(long, text(3, 70), text(4, 20)), pair(short, text(5, 30), text(5, 90)),
    pair(text(6, 5), text(7, 6), text(8, 4), text(9, 5)), pair(long, text(3, 5), {}) }
end

-- Returns two groups of answers, a single answer, and a group with one member.
local function groups()
  local given = {}
  local function add(family, prompt, tokens, ...)
    given[#given + 1] = answered(prompt, text(#given + 20, tokens))
    given[#given].family = family
    if ... then add(family, prompt, ...) end
  end
  add(3, text(10, 160), 40, 66, 2, 75)
  add(1, text(11, 70), 3, 30, 12)
  add(nil, text(12, 40), 20)
  add(2, text(13, 20), 8)
  return given
end

-- Returns DPO's objective with a smaller weight for the longer answer's additional tokens, and with
-- reference log-probs that differ from the policy's.
local function preferences()
  local loss = objectives.preference { beta = 0.4, loss = "robust", label_smoothing = 0.1,
    ftx = 0.2, bco_weight = 0 }
  return {
    level = "sequence",
    needs_reference = true,
    statistics = { "mean_logit" },
    weights = function(batch) return objectives.desensitized(batch:sequence(), 0.3) end,
    count = function(batch) return batch:size() end,
    loss = function(batch, log_probs)
      return loss:loss { policy = log_probs, reference = batch.reference,
        targets = batch:document_targets(), mean_logits = batch.statistics.mean_logit,
        places = batch:places() }
    end,
  }
end

local KEPT = reference.kept { { -200, -90 }, { -100, -290 }, { -20, -11 }, { -15, 0 } }

-- Returns an objective that sums the log-probs of all tokens, each with the weight of its answer: a
-- number from -2 to 2 that depends on the answer's index in the step.
local function weighted()
  return {
    level = "token",
    count = function(batch) return batch:count_targets() end,
    loss = function(batch, log_probs)
      local advantages = {}
      for i, place in ipairs(batch:places()) do advantages[i] = (place * 7) % 5 - 2 end
      local weights = batch:cut(batch:of_tokens(advantages)):to "fp64"
      return -(log_probs * weights):sum()
    end,
  }
end

-- Returns an objective that sums e^(mean log-prob) over the answers, each with a weight from -2 to
-- 2 that depends on its index in the step.
local function by_answer()
  return {
    level = "sequence",
    count = function(batch) return batch:size() end,
    loss = function(batch, log_probs)
      local advantages = {}
      for i, place in ipairs(batch:places()) do advantages[i] = (place * 7) % 5 - 2 end
      local means = log_probs / batch:document_targets()
      return -(means:exp() * moonring.tensor(advantages, "fp64")):sum()
    end,
  }
end

local function reward(model) return stages.of { stage = "rm" }.objective({ seed = 3 }, model) end

-- Each case has examples, a loss and micro_batch_tokens; one value of the latter is so small that
-- it splits a group.
local CASES = {
  { name = "preferences", examples = pairs_of_answers, objective = preferences, tokens = 100000,
    reference = KEPT },
  { name = "preferences", examples = pairs_of_answers, objective = preferences, tokens = 350,
    reference = KEPT },
  { name = "weighted", examples = groups, objective = weighted, tokens = 100000 },
  { name = "weighted", examples = groups, objective = weighted, tokens = 300 },
  { name = "by answer", examples = groups, objective = by_answer, tokens = 100000 },
  { name = "reward", examples = pairs_of_answers, objective = reward, tokens = 100000,
    noise = { seed = 5 } },
}

local function norm_of(tensor) return math.sqrt((tensor * tensor):sum():item()) end

-- Returns the greatest difference of a gradient, relative to its norm. A gradient that is 0 except
-- for rounding (a value head's bias, which cancels in each pair) is compared relative to the
-- greatest norm.
local function distances(gradients, wanted)
  local greatest, found = 0, {}
  for _, each in ipairs(wanted) do greatest = math.max(greatest, each and norm_of(each) or 0) end
  for i, each in ipairs(wanted) do
    assert(not each == not gradients[i])
    if each then
      local norm = norm_of(each)
      found[i] = norm_of(gradients[i] - each) / (norm > 1e-12 * greatest and norm or greatest)
    end
  end
  return found
end

-- Returns the step's loss, metrics and gradients, and the number of tokens that went through the
-- model.
local function run(case, model, attention, share_prefixes)
  local objective = case.objective(model)
  local engine = moonring.engine.new { mesh = mesh, model = model, attention = attention,
    objective = objective, reference = case.reference, noise = case.noise }
  local step = moonring.data.step { examples = case.examples(), mesh = mesh,
    micro_batch_tokens = case.tokens, share_prefixes = share_prefixes }
  local tokens = 0
  for _, micro in ipairs(step:micro_batches()) do tokens = tokens + micro:sequence():tokens() end
  local loss, told = engine:backward(step, 1)
  local gradients = {}
  for i, parameter in ipairs(engine.parameters:list()) do
    local gradient = parameter:gradient()
    gradients[i] = gradient and gradient * 1 or false
  end
  engine.parameters:clear_gradients()
  return { loss = loss, told = told, gradients = gradients, tokens = mesh:sum_dp(tokens) }
end

for _, folder in ipairs(words(opt.models)) do
  local model = moonring.model.load(moonring.model.open(folder), { precision = "fp64" })
  rows = model:head():weight():shape()[1]
  local worst, total, at = 0, 0, ""
  local function see(gap, ...)
    assert(gap == gap, table.concat({ "not a number: ", ... }))
    if gap > worst then worst, at = gap, table.concat({ ... }, " ") end
  end
  for _, strategy in ipairs(words(opt.strategies)) do
    for _, mixing in ipairs(words(opt.mixings)) do
      local attention = moonring.attention.create { mesh = mesh, strategy = strategy,
        mixing = mixing, heads = 4, kv_heads = 2, head_dim = 8 }
      for _, case in ipairs(CASES) do
        local apart, shared = run(case, model, attention, false),
          run(case, model, attention, true)
        assert(shared.tokens < apart.tokens, "nothing is shared")
        see(math.abs(shared.loss / apart.loss - 1), case.name, strategy, mixing, "loss")
        for name, of in pairs(apart.told) do
          see(math.abs(shared.told[name][1] - of[1]) / (1 + math.abs(of[1])), case.name, strategy,
            mixing, name)
          assert(shared.told[name][2] == of[2])
        end
        for i, gap in pairs(distances(shared.gradients, apart.gradients)) do
          see(gap, case.name, strategy, mixing, "gradient", tostring(i))
        end
        total = total + shared.loss
      end
    end
  end
  if mesh:rank() == 0 then
    print(("%s: worst %.3g total %.12g (%s)"):format(folder:match "[^/]+$", worst, total, at))
  end
end
