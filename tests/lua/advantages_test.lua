-- Compares advantages with those of TRL 0.24's trainers: advantages_test.lua POLICY_GRADIENT.json.
-- Then checks cases that the golden file does not cover.
local moonring = require "moonring"
local advantages, system = require("moonring.run.rollouts.advantages"), moonring.system

local golden = system.json_decode(system.read(arg[1]), arg[1])

local function near(what, a, b)
  assert(math.abs(a - b) <= 1e-12 * (1 + math.abs(b)),
    ("%s: %.17g, expected %.17g"):format(what, a, b))
end

local function refused(words, f, ...)
  local done, text = pcall(f, ...)
  assert(not done and tostring(text):find(words, 1, true),
    done and "nothing was refused; expected: " .. words or text)
end

-- Converts the golden file's table [answers][functions] to one list per reward function. null: the
-- function has no reward for the answer.
local function functions_of(case)
  local functions = {}
  for f, weight in ipairs(case.options.weights) do
    local values = {}
    for i, row in ipairs(case.rewards) do
      local value = row[f]
      if value == system.null then value = f == 1 and 0 / 0 or nil end -- no reward
      values[i] = value
    end
    functions[f] = { name = "f" .. f - 1, weight = weight, values = values }
  end
  return functions
end

local function check(case, made)
  local what = system.json_encode(case.options)
  assert(#made.advantages == #case.advantages, what)
  for i, wanted in ipairs(case.advantages) do near(what, made.advantages[i], wanted) end
  local means, found = moonring.metrics.means(moonring.metrics.add({}, made.metrics)), 0
  for name, wanted in pairs(case.metrics) do
    assert(means[name], what .. ": no " .. name)
    near(what .. " " .. name, means[name], wanted)
    found = found + 1
  end
  assert(found >= 5, what)
  for name in pairs(means) do assert(case.metrics[name], what .. ": " .. name) end
end

assert(#golden.groups >= 12 and #golden.leave_one_out >= 4)
for _, case in ipairs(golden.groups) do
  local o = case.options
  check(case, advantages.of_groups { functions = functions_of(case), answers = #case.rewards,
    generations = o.generations, scale_rewards = o.scale_rewards })
end
for _, case in ipairs(golden.leave_one_out) do
  local o = case.options
  check(case, advantages.leave_one_out { functions = functions_of(case),
    answers = #case.rewards, generations = o.generations, beta = o.beta, clip = o.clip,
    normalize = o.normalize, kl = case.kl, tokens = case.tokens })
end

-- Prompts whose answers all have the same reward give no training signal; some answers have no
-- reward.
local nan = 0 / 0
local made = advantages.of_groups { answers = 6, generations = 2, functions = {
  { name = "a", values = { 0.1, 0.1, 1, nan, nan } },
  { name = "b", values = { 0.2, 0.2, nan, 1 } } } }
assert(not made.signal[1] and not made.signal[2] and not made.signal[3])
assert(#made.unrewarded == 2 and made.unrewarded[1] == 5 and made.unrewarded[2] == 6)
assert(made.metrics.frac_reward_zero_std[1] == 3 and made.metrics.frac_reward_zero_std[2] == 3)
assert(made.advantages[1] == 0 and made.rewards[3] == 1 and made.rewards[6] == 0)
made = advantages.of_groups { answers = 4, generations = 2, scale_rewards = "batch",
  functions = { { name = "a", values = { 0, 1, 2, 2 } } } }
assert(made.signal[1] and not made.signal[2] and made.advantages[3] == 0)

-- Invalid arguments are rejected.
local one = { { name = "a", values = { 1, 2 } } }
refused("generations: an advantage compares answers of one prompt, expected a whole number of 2 "
  .. "or more, got 1", advantages.of_groups, { answers = 2, generations = 1, functions = one })
refused("answers: expected a multiple of generations (2), got 3", advantages.of_groups,
  { answers = 3, generations = 2, functions = one })
refused("there is no reward function", advantages.leave_one_out,
  { answers = 2, generations = 2, functions = {} })
refused("option 'scale_rewards': expected group or batch or none, got 'groop'",
  advantages.of_groups,
  { answers = 2, generations = 2, functions = one, scale_rewards = "groop" })
refused("kl: expected a number for each of 2 answers with beta 0.1, got none",
  advantages.leave_one_out, { answers = 2, generations = 2, functions = one, beta = 0.1 })

-- The length penalty equals equation 13 of DAPO, with L_max 20 and L_cache 4.
for length, wanted in pairs { [1] = 0, [16] = 0, [17] = -0.25, [18] = -0.5, [20] = -1, [21] = -1,
  [900] = -1 } do
  assert(advantages.overlong(length, { max_length = 20, cache = 4 }) == wanted, length)
end
assert(advantages.overlong(20, { max_length = 20, cache = 0 }) == 0)
assert(advantages.overlong(21, { max_length = 20, cache = 0 }) == -1)
refused("cache: expected 0 to max_length (20), got 21", advantages.overlong, 3,
  { max_length = 20, cache = 21 })
