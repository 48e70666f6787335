-- model:rollout: rollout_test.lua MODEL. Its log-probs equal those that an objective computes for
-- the same text, its greedy completions equal those of model:generate, and a wrong argument gives a
-- clear one-line message.
local moonring = require "moonring"

local model = moonring.model.load(moonring.model.open(arg[1]), { precision = "fp64" })
local mesh = moonring.comm.mesh { sp = 1 }
local attention = moonring.attention.create { mesh = mesh }

local prompts = {}
for p, length in ipairs { 4, 90, 17 } do
  local ids = {}
  for t = 1, length do ids[t] = 5 + (p * 31 + t * 7) % 40 end
  prompts[p] = { ids = ids, key = 100 + p }
end

-- Returns the log-probs that the trainer computes for the tokens of an answer after its prompt.
local function trained(prompt, answer, temperature)
  return moonring.scope(function()
    local document, labels = { unpack(prompt) }, {}
    for t = 1, #prompt do labels[t] = -100 end
    for _, id in ipairs(answer) do
      document[#document + 1], labels[#labels + 1] = id, id
    end
    local sequence = moonring.comm.sequence { documents = { document }, labels = { labels } }
    local ids, positions, targets, plan = attention:cut(sequence)
    local hidden = model:forward(ids, positions, plan):detach()
    local rows = moonring.objectives.log_prob(hidden / temperature, model:head(), targets)
    local of_answer = {}
    for i = 1, #answer do of_answer[i] = rows[#prompt + i - 2]:item() end
    return of_answer
  end)
end

local how = { answers = 3, max_new_tokens = 8, temperature = 0.8, seed = 4, sequences = 5 }
local answers = model:rollout(prompts, how)
assert(#answers == #prompts)
local differ = 0
for p, of_prompt in ipairs(answers) do
  assert(#of_prompt == 3)
  for _, answer in ipairs(of_prompt) do
    assert(#answer.ids == 8 and #answer.log_probs == 8 and answer.stopped == false)
    for t, wanted in ipairs(trained(prompts[p].ids, answer.ids, 0.8)) do
      assert(math.abs(answer.log_probs[t] - wanted) < 1e-11,
        ("prompt %d, token %d: %.15g, the trainer's %.15g"):format(p, t, answer.log_probs[t],
          wanted))
    end
    differ = differ + (answer.ids[1] ~= of_prompt[1].ids[1] and 1 or 0)
  end
end
assert(differ > 0, "answers draw numbers of their own")

-- The same prompt alone, and with a stop token.
local alone = model:rollout({ prompts[2] }, how)[1]
for i = 1, 3 do
  assert(table.concat(alone[i].ids, " ") == table.concat(answers[2][i].ids, " "))
end
how.stop_ids = { answers[2][1].ids[5] }
local stopped = model:rollout({ prompts[2] }, how)[1][1]
assert(stopped.stopped and stopped.ids[#stopped.ids] == how.stop_ids[1] and #stopped.ids <= 5)
how.stop_ids = nil

local greedy = model:rollout(prompts, { max_new_tokens = 9 })
for p, prompt in ipairs(prompts) do
  local wanted = model:generate(prompt.ids, { max_new_tokens = 9 })
  assert(table.concat(greedy[p][1].ids, " ") == table.concat(wanted, " "), "prompt " .. p)
end

-- A hook gets the rows of the rollout. In this test the group of ranks has one rank.
local rows = 0
model:rollout({ prompts[1] }, { max_new_tokens = 3, lockstep = mesh,
  around = function(layer, hidden) if layer == 0 then rows = rows + hidden:size(0) end end })
assert(rows == 4 + 2, rows)

local function refuses(words, given, options)
  local done, message = pcall(model.rollout, model, given, options)
  assert(not done and tostring(message):find(words, 1, true), words .. ": " .. tostring(message))
end
refuses("prompt 0: no tokens to continue", { { ids = {} } })
refuses("prompt 1: expected a table of ids and key, got 3", { 3 })
refuses("ids", { { key = 3 } })
refuses("did you mean 'key'", { { ids = { 1 }, keys = 3 } })
refuses("min_p is 2", prompts, { min_p = 2 })
refuses("answers is 0", prompts, { answers = 0 })
refuses("did you mean 'answers'", prompts, { answer = 2 })

-- Two turns: the trainer's log-probs of the sampled tokens, in the text with the given ones. The
-- hook gets the same table in each call, up to date.
local states, places = {}, {}
local turns = { answers = 2, max_new_tokens = 30, temperature = 0.8, seed = 4, max_turns = 3,
  stop_texts = { "e", "a" }, tokenizer = moonring.data.tokenizer(moonring.model.open(arg[1])),
  continue = function(answer)
    local calls = (states[answer] or 0) + 1
    states[answer] = calls
    assert(answer.turn == calls and answer.key == 100 + answer.prompt)
    assert(#answer.prompt_ids == #prompts[answer.prompt].ids)
    assert(answer.first <= #answer.ids and (calls > 1 or answer.first == 1))
    return { 7, 8, 9 }
  end,
  logits = function(logits, list)
    assert(logits:size(0) == #list)
    for i, row in ipairs(list) do
      assert(#row.ids >= (places[row] or 0))
      places[row] = #row.ids
      logits[i - 1]:slice(0, 0, 4):fill_(-math.huge) -- no special tokens
    end
  end }
local several, given = model:rollout(prompts, turns), 0
for p, of_prompt in ipairs(several) do
  for _, answer in ipairs(of_prompt) do
    local logs = trained(prompts[p].ids, answer.ids, 0.8)
    for t, mask in ipairs(answer.mask) do
      given = given + 1 - mask
      assert(mask == 1 and answer.ids[t] >= 4 or answer.log_probs[t] == 0)
      assert(mask == 0 or math.abs(answer.log_probs[t] - logs[t]) < 1e-11)
    end
    assert(answer.turns <= 3 and answer.mask[#answer.mask] == 1)
  end
end
assert(given > 0 and given % 3 == 0 and next(states) ~= nil, given)
assert(several[1][1].mask and not answers[1][1].mask)

local function hook_refuses(words, options)
  options.max_new_tokens = 20
  refuses(words, prompts, options)
end
local line = debug.getinfo(1, "l").currentline
hook_refuses(("rollout_test.lua:%d: boo"):format(line + 2), { logits = function()
  error "boo"
end })
hook_refuses("option 'logits': expected a function, got a table", { logits = {} })
hook_refuses("stop_texts': expected the option 'tokenizer'", { stop_texts = { "a" } })
hook_refuses("option 'stop_texts': a text is empty", { stop_texts = { "" },
  tokenizer = turns.tokenizer })
hook_refuses("max_turns is 2 without", { max_turns = 2 })
hook_refuses("expected a list of token ids", { stop_ids = { answers[1][1].ids[1] },
  temperature = 0.8, seed = 4, continue = function() return "text" end })
hook_refuses("item 2 of the result is a string", { stop_ids = { answers[1][1].ids[1] },
  temperature = 0.8, seed = 4, continue = function() return { 1, "text" } end })
hook_refuses("expected [3, ", { logits = function(logits) return logits:t() end })
-- The error is the script's own value.
local done, why = pcall(model.rollout, model, prompts, { logits = function()
  error { mine = 1 }
end })
assert(not done and why.mine == 1)
-- model:generate has the hook too.
local ids = model:generate(prompts[1].ids, { max_new_tokens = 3, logits = function(logits, list)
  assert(list[1].prompt == 1 and logits:size(0) == 1 and #list == 1)
  return moonring.ops.full_like(logits, -math.huge):index_fill_(1,
    moonring.tensor({ 11 + #list[1].ids }, "int64"), 0)
end })
assert(table.concat(ids, " ") == "11 12 13")
