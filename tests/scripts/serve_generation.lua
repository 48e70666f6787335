--- moonring [-n RANKS] serve_generation.lua MODEL SP PRECISION: generation.lua of a service. Checks
-- that each request gets the answers and scores that it gets alone, whatever runs or arrives beside
-- it, and prints them as JSON, to be compared with those of other numbers of ranks.
local moonring = require "moonring"
local generation = require "moonring.serve.generation"
local system = require "moonring.native.system"

local exact = arg[3] == "fp64" and 1e-11 or 2e-5 -- prompts are packed with others to be scored
local mesh = moonring.comm.mesh { sp = tonumber(arg[2]) }
local checkpoint = moonring.model.open(arg[1])
local model = moonring.model.load(checkpoint, { precision = arg[3] })
local tokenizer = moonring.data.tokenizer(checkpoint)
local service = { mesh = mesh, attention = moonring.attention.create { mesh = mesh },
  config = { rollout_sequences = 8, rollout_spread_length = 60, micro_batch_tokens = 128 } }
local base = { name = "base", checkpoint = checkpoint, tokenizer = tokenizer }
local weights = { id = "base", model = model, base = base }
-- A second model: the same, but for its last bits of temperature: another handle.
local other = { id = "other", base = base,
  model = moonring.model.load(checkpoint, { precision = arg[3] }) }

local vocabulary = checkpoint:vocab_size()
local prompts = {}
for p, length in ipairs { 4, 90, 17, 1, 130 } do
  local ids = {}
  for t = 1, length do ids[t] = 5 + (p * 31 + t * 7) % 40 end
  prompts[p] = ids
end

-- Requests that differ in everything.
local function requests()
  return {
    { weights = weights, prompts = { prompts[1], prompts[2] }, answers = 3, key = 7, top = 3,
      options = { max_new_tokens = 9, temperature = 0.8 } },
    { weights = weights, prompts = { prompts[2], prompts[3], prompts[4] }, key = 7,
      prompt_scores = { top = 2, last = 5 },
      options = { max_new_tokens = 9, temperature = 0, stop_texts = { "e", "a" } } },
    { weights = weights, prompts = { prompts[5], prompts[3] }, key = 9, prompt_scores = {}, top = 4,
      options = { max_new_tokens = 1, temperature = 0 } },
    { weights = weights, prompts = { prompts[3] }, answers = 2, key = 2 ^ 53 - 1,
      prompt_scores = { top = 1 }, options = { max_new_tokens = 1, top_p = 0.9 } },
    { weights = other, prompts = { prompts[1] }, answers = 2, key = 3,
      options = { max_new_tokens = 20, temperature = 1.5, top_k = 40, min_p = 0.01 } },
    { weights = weights, prompts = { prompts[5] }, key = 1, prompt_scores = { last = 3 },
      options = { max_new_tokens = 0 } },
    { weights = weights, prompts = { prompts[1] }, key = 5,
      options = { max_new_tokens = 25, repetition_penalty = 1.3, stop_ids = { 9, 10, 11 } } },
  }
end

-- Runs requests, of which those from `first_later` on come while the others run. Returns the
-- results, on rank 0. `watch` may change a request.
local function run(list, first_later, pause, watch)
  local queue, results, calls, next_one = generation.new(service), {}, 0, first_later
  local function add(i)
    local request = list[i]
    request.done = function(answers, scores)
      assert(not results[i], "done twice")
      results[i] = { answers = answers, scores = scores }
    end
    request.fail = function(why) error(why, 0) end
    if watch then watch(i, request) end
    queue:add(request)
  end
  for i = 1, first_later - 1 do add(i) end
  queue:use(weights)
  queue:use(other) -- requests that join may name both
  queue:run(function()
    calls = calls + 1
    if calls % pause == 0 and next_one <= #list then
      add(next_one)
      next_one = next_one + 1
    end
  end)
  if mesh:rank() == 0 then
    for i = 1, next_one - 1 do assert(results[i], "request " .. i .. " has no result") end
  end
  return results, next_one - 1
end

local function same(a, b, where)
  assert(type(a) == type(b), where)
  if type(a) == "table" then
    for name in pairs(a) do assert(b[name] ~= nil, where .. ": " .. tostring(name)) end
    for name, value in pairs(b) do same(a[name], value, where .. "." .. tostring(name)) end
  elseif type(a) == "number" and a == a and b == b then
    assert(math.abs(a - b) <= exact, ("%s: %.17g, %.17g"):format(where, a, b))
  else
    assert(a == b or a ~= a and b ~= b, where)
  end
end

local alone = {}
for i, request in ipairs(requests()) do alone[i] = run({ request }, 2, 1)[1] or {} end
local together = run(requests(), #requests() + 1, 1)
if mesh:rank() == 0 then same(together, alone, "together") end

-- Requests that arrive at any moment.
for _, pause in ipairs { 1, 2, 5 } do
  for _, first_later in ipairs { 2, 4 } do
    local results, count = run(requests(), first_later, pause)
    assert(mesh:rank() ~= 0 or count > first_later, "some arrive")
    for i, result in pairs(results) do same(result, alone[i], "arrived " .. i) end
  end
end

-- Tokens come as they are; clients that go change no other request.
local tokens = {}
local results = run(requests(), 3, 1, function(i, request)
  request.on_token = function(prompt, answer, id, log_prob, top)
    local place = ("%d %d %d"):format(i, prompt, answer)
    tokens[place] = tokens[place] or { ids = {}, log_probs = {} }
    local seen = tokens[place]
    seen.ids[#seen.ids + 1], seen.log_probs[#seen.log_probs + 1] = id, log_prob
    assert((top ~= nil) == (request.top ~= nil))
    return not ((i == 1 or i == 5) and answer == 2 and #seen.ids == 3)
  end
end)
local cancelled = 0
for i, result in pairs(results) do
  for p, answers in ipairs(result.answers) do
    for a, answer in ipairs(answers) do
      local seen = tokens[("%d %d %d"):format(i, p, a)] or { ids = {}, log_probs = {} }
      same(seen.ids, answer.ids, "tokens")
      same(seen.log_probs, answer.log_probs, "log-probs of tokens")
      if answer.cancelled then
        assert((i == 1 or i == 5) and a == 2 and #answer.ids == 3)
        cancelled = cancelled + 1
      else
        same(answer, alone[i].answers[p][a], "beside cancelled")
      end
    end
  end
end
assert(mesh:rank() ~= 0 or cancelled >= 2, cancelled)

-- A done that fails is the request's failure, and no other's.
local why
run(requests(), #requests() + 1, 1, function(i, request)
  if i ~= 2 then return end
  local done = request.done
  request.done = function(...)
    done(...)
    error "boo"
  end
  request.fail = function(reason) why = tostring(reason) end
end)
assert(mesh:rank() ~= 0 or why:find "boo", why)

-- Scores are the trainer's, and those of the sampled tokens.
local function scores_of(ids)
  local scored
  local queue = generation.new(service)
  queue:add { weights = weights, prompts = { ids }, key = 0, prompt_scores = { top = 5 },
    options = { max_new_tokens = 0 }, done = function(_, scores) scored = scores[1] end }
  queue:run()
  return scored
end
local largest = 0
for _, i in ipairs { 6, 7 } do
  local request = requests()[i]
  local ids = { unpack(request.prompts[1]) }
  local text = mesh:rank() == 0 and system.json_encode(alone[i].answers[1][1]) or ""
  local answer = system.json_decode(mesh:gather(text)[1])
  for _, id in ipairs(answer.ids) do ids[#ids + 1] = id end
  local scores = scores_of(ids)
  local trained = moonring.scope(function()
    local sequence = moonring.comm.sequence { documents = { ids } }
    local own, positions, targets, plan, layout = service.attention:cut(sequence)
    local hidden = model:forward(own, positions, plan):detach()
    local rows = moonring.objectives.log_prob(hidden, model:head(), targets)
    return moonring.collectives.gather_stream(rows, layout, mesh):tolist()
  end)
  if mesh:rank() == 0 then
    assert(scores.log_probs[1] ~= scores.log_probs[1] and scores.first == 2 and not scores.top[1])
    for t = 2, #ids do
      assert(math.abs(scores.log_probs[t] - trained[t - 1]) <= exact)
      local top, is_there = scores.top[t], false
      for k = 1, 5 do
        assert(k == 1 or top.log_probs[k] <= top.log_probs[k - 1] + 1e-6)
        if top.ids[k] == ids[t] then
          is_there = true
          assert(top.log_probs[k] == scores.log_probs[t], "one number for one token")
        end
      end
      assert(is_there or scores.log_probs[t] <= top.log_probs[5] + 1e-6)
    end
    for k, log_prob in ipairs(answer.log_probs) do
      local t = #ids - #answer.ids + k
      largest = math.max(largest, math.abs(scores.log_probs[t] - log_prob))
    end
  end
end
assert(largest < (arg[3] == "fp64" and 1e-11 or 1e-5), largest)

-- Further targets: an id has one number, whichever list it is in; -1 has none.
local targets = {}
for t = 2, #prompts[3] do
  targets[t - 1] = { (t * 5) % 40, prompts[3][t], t % 2 == 0 and -1 or 11 }
end
local asked = { { weights = weights, prompts = { prompts[1] }, key = 1, prompt_scores = {},
  options = { max_new_tokens = 0 } }, { weights = weights, prompts = { prompts[3] }, key = 1,
  prompt_scores = { targets = { targets }, top = vocabulary }, options = { max_new_tokens = 0 } } }
local with_targets = run(asked, 3, 1)[2]
if mesh:rank() == 0 then
  local scores = with_targets.scores[1]
  assert(#scores.targets == #prompts[3] and #scores.targets[1] == 0)
  for t = 2, #prompts[3] do
    local by_id, row = {}, scores.targets[t]
    for k, id in ipairs(scores.top[t].ids) do by_id[id] = scores.top[t].log_probs[k] end
    assert(#row == 3 and row[2] == scores.log_probs[t])
    for k, id in ipairs(targets[t - 1]) do
      assert(id == -1 and row[k] == 0 or row[k] == by_id[id], id)
    end
  end
end

-- A prompt scored and continued by one token: the largest of the list is the token's own number.
for p = 1, mesh:rank() == 0 and 2 or 0 do
  local one = alone[3].answers[p][1]
  assert(#one.ids == 1 and #one.top[1].ids == 4)
  assert(one.ids[1] == one.top[1].ids[1] and one.log_probs[1] == one.top[1].log_probs[1])
  local list = alone[3].scores[p].log_probs
  assert(#list == #requests()[3].prompts[p])
end

-- Many of them in one forward: each gets the tokens that it is decoded to.
local many, decoded, chosen = {}, nil, nil
for p = 1, 40 do many[p] = { 5 + p, 6, 7 } end
local queue_of_many = generation.new(service)
for _, scores in ipairs { false, { top = 1 } } do
  queue_of_many:add { weights = weights, prompts = many, answers = 2, key = 4,
    prompt_scores = scores or nil, options = { max_new_tokens = 1 }, done = function(answers)
      if scores then chosen = answers else decoded = answers end
    end }
end
queue_of_many:run()
if mesh:rank() == 0 then same(chosen, decoded, "many") end

-- What a model cannot answer is refused when it is added.
local function refuses(words, changes)
  local request = { weights = weights, prompts = { { 5, 6 } }, key = 1, options = {} }
  for name, value in pairs(changes) do request[name] = value end
  local queue = generation.new(service)
  local ok, message = pcall(queue.add, queue, request)
  assert(not ok and tostring(message):find(words, 1, true), words .. ": " .. tostring(message))
  assert(not queue.waiting[1])
end
refuses("prompt: no tokens", { prompts = { {} } })
refuses("prompt 1: token 1 is " .. vocabulary, { prompts = { { 1 }, { 1, vocabulary } } })
refuses("prompt: token 0 is 1.5", { prompts = { { 1.5 } } })
refuses("prompt: token 0 is -1", { prompts = { { -1 } } })
refuses("top_p: expected a number above 0", { options = { top_p = 0 } })
refuses("temperature: expected a number, 0 (greedy) or more, got nan",
  { options = { temperature = 0 / 0 } })
refuses("top_k: expected a whole number", { options = { top_k = 2.5 } })
refuses("stop: expected texts of at least one", { options = { stop_texts = { "" } } })
refuses("key: expected", { key = -1 })
refuses("the number of answers", { answers = 0 })
refuses("targets of 2 positions, expected 1",
  { prompt_scores = { targets = { { { 1 }, { 1 } } } } })
refuses("prompt: target -2 of position 1", { prompt_scores = { targets = { { { -2 } } } } })
refuses("top log-probs: expected 0 to", { top = vocabulary + 1 })
local long = {}
for t = 1, checkpoint:max_position_embeddings() + 1 do long[t] = 5 end
refuses("the model's context has", { prompts = { long } })

if mesh:rank() == 0 then print(system.json_encode { alone = alone, largest = largest }) end
