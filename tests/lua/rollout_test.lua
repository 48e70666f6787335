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
