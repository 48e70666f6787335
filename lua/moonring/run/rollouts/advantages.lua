--- From rewards to advantages: numbers of all answers of a step, which every rank has. The
-- answers of a prompt are its group, and come one after another.
--
--   reward of an answer = sum over the reward functions of weight x what it gave
--   group, batch, none       A = reward - mean of its group, over 1e-4 + the standard deviation of
--                            its group (GRPO, arXiv 2402.03300), or of all rewards (arXiv
--                            2508.08221), or over nothing (Dr. GRPO, arXiv 2503.20783)
--   leave_one_out            A = reward - mean of the others of its group (RLOO, arXiv 2402.14740)
--
-- The formulas and the metrics' names are those of TRL 0.24; standard deviations divide by n - 1.
-- In fp64, where TRL has fp32.
local errors = require "moonring.base.errors"
local options = require "moonring.base.options"

---@class moonring.advantages
local advantages = {}

local EPSILON = 1e-4    -- added to a standard deviation before it divides
local NO_SIGNAL = 1e-8  -- a standard deviation up to here is none

---@class moonring.RewardColumn
---@field name string in the metrics
---@field weight? number 1 where absent
--- by answer, from 1; nil or NaN: it has none for this one, which adds nothing
---@field values table<integer, number>

---@class moonring.Advantages
---@field advantages number[] by answer
---@field rewards number[] by answer: what the advantages were made of
--- by prompt: whether its rewards differ. Where they do not, all its advantages are 0 and there is
--- nothing to learn of it: what DAPO's dynamic sampling leaves out
---@field signal boolean[]
---@field unrewarded integer[] answers, from 1, for which no function has a number: their reward
---   is 0
--- name -> { sum, count }, the same on every rank: reward, reward_std, frac_reward_zero_std,
--- rewards/<name>/mean, rewards/<name>/std
---@field metrics table<string, number[]>

---@class moonring.RewardsOptions
---@field functions moonring.RewardColumn[]
---@field answers integer how many there are in the step
---@field generations integer of each prompt

---@class moonring.AdvantagesOptions: moonring.RewardsOptions
---@field scale_rewards? "group" | "batch" | "none" "group" where absent

---@class moonring.LeaveOneOutOptions: moonring.RewardsOptions
---@field clip? number[] least and greatest reward, before the KL term (reward_clip_range)
--- with beta: by answer, the sum over its tokens of the sampling policy's log-prob minus the
--- reference's
---@field kl? number[]
---@field beta? number times kl, off the reward
---@field tokens? number[] by answer, that kl is a sum over: gives the metric kl
--- whether advantages are, over the step, less their mean and over 1e-4 + their standard deviation
---@field normalize? boolean

local REWARDS = { functions = "table", answers = "number", generations = "number" }

local function with(more)
  for name, kind in pairs(REWARDS) do more[name] = kind end
  return more
end

local GROUP = with { scale_rewards = "string?" }
local LEAVE_ONE_OUT = with { clip = "table?", kl = "table?", beta = "number?", tokens = "table?",
  normalize = "boolean?" }

local function mean(values)
  local sum = 0
  for _, value in ipairs(values) do sum = sum + value end
  return sum / #values
end

-- The standard deviation of a sample: of n - 1 degrees.
local function deviation(values)
  local middle, sum = mean(values), 0
  for _, value in ipairs(values) do sum = sum + (value - middle) ^ 2 end
  return math.sqrt(sum / (#values - 1))
end

local function check(name, given, known)
  options.check(name, given, known)
  local n, generations = given.answers, given.generations
  if generations < 2 or generations ~= math.floor(generations) then
    errors.fail(name, ": generations: an advantage compares answers of one prompt, wanted a ",
      "whole number of 2 or more, got ", generations)
  end
  if n < generations or n % generations ~= 0 then
    errors.fail(name, ": answers: wanted a multiple of generations (", generations, "), got ",
      n)
  end
  if #given.functions == 0 then errors.fail(name, ": functions: there is no reward function") end
end

-- Adds what one function gave to the rewards and metrics.
local function add_function(of, totals, rewarded, metrics)
  local known, weight = {}, of.weight or 1
  for i = 1, #totals do
    local value = of.values[i]
    if value and value == value then
      known[#known + 1] = value
      totals[i], rewarded[i] = totals[i] + weight * value, true
    end
  end
  local prefix = "rewards/" .. of.name
  if #known > 0 then metrics[prefix .. "/mean"] = { mean(known) * #known, #known } end
  if #known > 1 then metrics[prefix .. "/std"] = { deviation(known), 1 } end
end

-- Weighted sums of all functions.
local function total(given)
  local totals, rewarded, metrics, unrewarded = {}, {}, {}, {}
  for i = 1, given.answers do totals[i] = 0 end
  for _, of in ipairs(given.functions) do add_function(of, totals, rewarded, metrics) end
  for i = 1, given.answers do
    if not rewarded[i] then unrewarded[#unrewarded + 1] = i end
  end
  return totals, metrics, unrewarded
end

-- Groups of rewards: their means and deviations, and which differ.
local function groups_of(rewards, generations)
  local means, deviations, signal = {}, {}, {}
  for first = 1, #rewards, generations do
    local group = { unpack(rewards, first, first + generations - 1) }
    local apart = deviation(group)
    means[#means + 1], deviations[#deviations + 1] = mean(group), apart
    signal[#signal + 1] = not (apart <= NO_SIGNAL) -- a NaN is to be seen
  end
  return means, deviations, signal
end

-- Metrics of the rewards; deviations are the groups', or the one of the step.
local function tell(metrics, means, deviations)
  local still = 0
  for _, each in ipairs(deviations) do still = still + (each <= NO_SIGNAL and 1 or 0) end
  metrics.reward = { mean(means) * #means, #means }
  metrics.reward_std = { mean(deviations) * #deviations, #deviations }
  metrics.frac_reward_zero_std = { still, #deviations }
end

--- Advantages of answers against their group's mean. Errors: INVALID_ARGUMENT for numbers that
--- do not fit, and for fewer than two answers of a prompt.
---@param given moonring.AdvantagesOptions
---@return moonring.Advantages
function advantages.of_groups(given)
  check("advantages.of_groups", given, GROUP)
  local scale = given.scale_rewards or "group"
  options.choice("advantages.of_groups", { scale_rewards = scale }, "scale_rewards",
    { "group", "batch", "none" })
  local rewards, metrics, unrewarded = total(given)
  local means, deviations, signal = groups_of(rewards, given.generations)
  local of_step = scale == "batch" and deviation(rewards)
  local found = {}
  for i, reward in ipairs(rewards) do
    local group = math.ceil(i / given.generations)
    local by = scale == "none" and 1 or EPSILON + (of_step or deviations[group])
    found[i] = (reward - means[group]) / by
  end
  tell(metrics, means, of_step and { of_step } or deviations)
  return { advantages = found, rewards = rewards, signal = signal, unrewarded = unrewarded,
    metrics = metrics }
end

-- The KL term off the rewards; the metric kl.
local function penalize(given, rewards, metrics)
  if not given.beta or given.beta == 0 then return end
  if not given.kl or #given.kl ~= #rewards then
    errors.fail("advantages.leave_one_out: kl: wanted a number for each of ", #rewards,
      " answers with beta ", given.beta, ", got ", given.kl and #given.kl or "none")
  end
  local sum, tokens = 0, 0
  for i, kl in ipairs(given.kl) do
    rewards[i], sum = rewards[i] - given.beta * kl, sum + kl
    tokens = tokens + (given.tokens and given.tokens[i] or 0)
  end
  if tokens > 0 then metrics.kl = { sum, tokens } end
end

--- Advantages of answers against the mean of the others of their group, as RLOOTrainer makes
--- them. Errors as of_groups', and where beta has no kl beside it.
---@param given moonring.LeaveOneOutOptions
---@return moonring.Advantages
function advantages.leave_one_out(given)
  check("advantages.leave_one_out", given, LEAVE_ONE_OUT)
  local rewards, metrics, unrewarded = total(given)
  local least, greatest = unpack(given.clip or { -math.huge, math.huge })
  for i, reward in ipairs(rewards) do rewards[i] = math.max(least, math.min(greatest, reward)) end
  penalize(given, rewards, metrics)
  local n, found = given.generations, {}
  local means, deviations, signal = groups_of(rewards, n)
  for i, reward in ipairs(rewards) do
    local sum = means[math.ceil(i / n)] * n
    found[i] = reward - (sum - reward) / (n - 1)
  end
  if given.normalize then
    local middle, apart = mean(found), deviation(found)
    for i, each in ipairs(found) do found[i] = (each - middle) / (apart + EPSILON) end
  end
  tell(metrics, means, deviations)
  return { advantages = found, rewards = rewards, signal = signal, unrewarded = unrewarded,
    metrics = metrics }
end

--- What an answer's length takes off its reward, 0 to -1 (DAPO's soft overlong punishment, arXiv
--- 2503.14476, equation 13): nothing up to max_length - cache tokens, then evenly more, all of it
--- above max_length.
---@param length integer tokens of the answer
---@param how { max_length: integer, cache: integer }
---@return number
function advantages.overlong(length, how)
  options.check("advantages.overlong", how, { max_length = "number", cache = "number" })
  local most, cache = how.max_length, how.cache
  if cache < 0 or cache > most then
    errors.fail("advantages.overlong: cache: wanted 0 to max_length (", most, "), got ", cache)
  end
  if length > most then return -1 end
  if length <= most - cache then return 0 end
  return (most - cache - length) / cache
end

return advantages
