--- Computes advantages from the rewards of all answers of a step. The answers to one prompt form a
-- group and are consecutive. Every rank has the rewards of all answers.
--
--   reward of an answer = sum over the reward functions of weight x the function's value
--   group, batch, none       A = (reward - mean of its group) / (1e-4 + the standard deviation of
--                            its group (GRPO, arXiv 2402.03300), or of all rewards (arXiv
--                            2508.08221)); with none it is not divided (Dr. GRPO, arXiv 2503.20783)
--   leave_one_out            A = reward - mean of the others of its group (RLOO, arXiv 2402.14740)
--
-- The formulas and the metrics' names are those of TRL 0.24; standard deviations divide by n - 1.
-- Computed in fp64, where TRL uses fp32.
local errors = require "moonring.base.errors"
local options = require "moonring.base.options"

---@class moonring.advantages
local advantages = {}

local EPSILON = 1e-4 -- added to a standard deviation before dividing by it
local NO_SIGNAL = 1e-8 -- a smaller standard deviation counts as 0

--- The values of one reward function for all answers of a step.
---@class moonring.RewardColumn
---@field name string in the metrics
---@field weight? number default 1
--- `values` by answer, from 1. Where it is nil or NaN, the function has no value for the answer and
--- adds nothing.
---@field values table<integer, number>

--- The advantages of a step's answers, and metrics.
---@class moonring.Advantages
---@field advantages number[] by answer
---@field rewards number[] by answer: the rewards from which the advantages were computed
--- `signal` by prompt: whether the rewards of its answers differ. If they are equal, all advantages
--- are 0 and there is no gradient; DAPO's dynamic sampling skips such prompts.
---@field signal boolean[]
---@field unrewarded integer[] answers, from 1, that no function has a value for: their reward is 0
--- `metrics`: name -> { sum, count }, the same on every rank: reward, reward_std,
--- frac_reward_zero_std, rewards/<name>/mean and rewards/<name>/std.
---@field metrics table<string, number[]>

---@class moonring.RewardsOptions
---@field functions moonring.RewardColumn[]
---@field answers integer number of answers in the step
---@field generations integer answers per prompt

---@class moonring.AdvantagesOptions: moonring.RewardsOptions
---@field scale_rewards? "group" | "batch" | "none" default "group"

--- Options of advantages.leave_one_out.
---@class moonring.LeaveOneOutOptions: moonring.RewardsOptions
---@field clip? number[] smallest and largest reward, before the KL term (reward_clip_range)
--- `kl`, needed with beta: by answer, the sum over its tokens of the log-prob of the policy that
--- sampled it minus that of the reference.
---@field kl? number[]
---@field beta? number times kl is subtracted from the reward
---@field tokens? number[] by answer, the number of tokens that kl sums over; adds the metric kl
--- `normalize`: whether to normalize the advantages of the step: their mean is subtracted, and they
--- are divided by 1e-4 + their standard deviation.
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

-- The standard deviation of a sample: divides by n - 1.
local function deviation(values)
  local middle, sum = mean(values), 0
  for _, value in ipairs(values) do sum = sum + (value - middle) ^ 2 end
  return math.sqrt(sum / (#values - 1))
end

local function check(name, given, known)
  options.check(name, given, known)
  local n, generations = given.answers, given.generations
  if generations < 2 or generations ~= math.floor(generations) then
    errors.fail(name, ": generations: an advantage compares answers of one prompt, expected a ",
      "whole number of 2 or more, got ", generations)
  end
  if n < generations or n % generations ~= 0 then
    errors.fail(name, ": answers: expected a multiple of generations (", generations, "), got ",
      n)
  end
  if #given.functions == 0 then errors.fail(name, ": functions: there is no reward function") end
end

-- Adds one reward function's values to the totals and the metrics.
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

-- The total reward of each answer: the weighted sum over all functions.
local function total(given)
  local totals, rewarded, metrics, unrewarded = {}, {}, {}, {}
  for i = 1, given.answers do totals[i] = 0 end
  for _, of in ipairs(given.functions) do add_function(of, totals, rewarded, metrics) end
  for i = 1, given.answers do
    if not rewarded[i] then unrewarded[#unrewarded + 1] = i end
  end
  return totals, metrics, unrewarded
end

-- Splits rewards into groups of `generations`. Returns the groups' means and standard deviations,
-- and whether the rewards within each group differ.
local function groups_of(rewards, generations)
  local means, deviations, signal = {}, {}, {}
  for first = 1, #rewards, generations do
    local group = { unpack(rewards, first, first + generations - 1) }
    local apart = deviation(group)
    means[#means + 1], deviations[#deviations + 1] = mean(group), apart
    signal[#signal + 1] = not (apart <= NO_SIGNAL) -- true for a NaN, which must not be hidden
  end
  return means, deviations, signal
end

-- Adds the metrics of the rewards. `deviations` has one value per group, or one for the whole step.
local function tell(metrics, means, deviations)
  local still = 0
  for _, each in ipairs(deviations) do still = still + (each <= NO_SIGNAL and 1 or 0) end
  metrics.reward = { mean(means) * #means, #means }
  metrics.reward_std = { mean(deviations) * #deviations, #deviations }
  metrics.frac_reward_zero_std = { still, #deviations }
end

--- Computes the advantages of answers relative to the mean reward of their group. Errors:
--- INVALID_ARGUMENT for inconsistent numbers, and for fewer than two answers per prompt.
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

-- Subtracts beta times the KL divergence from the rewards, and adds the metric kl.
local function penalize(given, rewards, metrics)
  if not given.beta or given.beta == 0 then return end
  if not given.kl or #given.kl ~= #rewards then
    errors.fail("advantages.leave_one_out: kl: expected a number for each of ", #rewards,
      " answers with beta ", given.beta, ", got ", given.kl and #given.kl or "none")
  end
  local sum, tokens = 0, 0
  for i, kl in ipairs(given.kl) do
    rewards[i], sum = rewards[i] - given.beta * kl, sum + kl
    tokens = tokens + (given.tokens and given.tokens[i] or 0)
  end
  if tokens > 0 then metrics.kl = { sum, tokens } end
end

--- Computes the advantages of answers relative to the mean reward of the other answers of their
--- group, as TRL's RLOOTrainer does. Errors: those of of_groups; INVALID_ARGUMENT if beta is given
--- without kl.
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

--- A penalty for the length of an answer, from 0 to -1, that is added to its reward (DAPO's soft
--- overlong punishment, arXiv 2503.14476, equation 13). It is 0 up to max_length - cache tokens,
--- falls linearly to -1 at max_length, and stays -1 above.
---@param length integer tokens of the answer
---@param how { max_length: integer, cache: integer }
---@return number
function advantages.overlong(length, how)
  options.check("advantages.overlong", how, { max_length = "number", cache = "number" })
  local most, cache = how.max_length, how.cache
  if cache < 0 or cache > most then
    errors.fail("advantages.overlong: cache: expected 0 to max_length (", most, "), got ", cache)
  end
  if length > most then return -1 end
  if length <= most - cache then return 0 end
  return (most - cache - length) / cache
end

return advantages
