--- The groups of completions that a rollout is trained on, one group per prompt: completions that
-- were generated and scored, or those of a custom rollout. With dynamic sampling only groups whose
-- rewards differ are used.
local errors = require "moonring.base.errors"
local judging = require "moonring.run.rollouts.judging"
local system = require "moonring.native.system"
local valuing = require "moonring.run.rollouts.valuing"

---@class moonring.rollout_groups
local groups_of = {}

--- Seconds spent on generating and scoring.
---@class moonring.RolloutTimes
---@field generate number
---@field judge number

--- Concatenates the completions of all groups into one list.
---@param groups moonring.Completion[][]
---@return moonring.Completion[]
function groups_of.flat(groups)
  local list = {}
  for _, group in ipairs(groups) do
    for _, each in ipairs(group) do list[#list + 1] = each end
  end
  return list
end

-- Calls `act`. Returns the seconds that it took, and its result.
local function timed(act, ...)
  local began = system.clock()
  local result = act(...)
  return system.clock() - began, result
end

--- Generates completions of prompts and scores them. Collective over all ranks.
---@param rollouts moonring.Rollouts
---@param prompts moonring.RolloutRow[]
---@param took moonring.RolloutTimes the time is added to it
---@return moonring.Completion[][]
function groups_of.judged(rollouts, prompts, took)
  local seconds, groups = timed(rollouts.complete, rollouts, prompts)
  took.generate = took.generate + seconds
  took.judge = took.judge + timed(judging.judge, rollouts.run, prompts, groups)
  return groups
end

--- Chooses as many groups of completions as there are prompts. With dynamic_sampling, groups whose
--- rewards are all equal (which have no gradient) are replaced by groups of further prompts. If
--- some are still missing after dynamic_sampling_rounds, or at the end of the prompts, groups with
--- equal rewards are used for the rest. Collective over all ranks.
---@param rollouts moonring.Rollouts
---@param prompts moonring.RolloutRow[]
---@param took moonring.RolloutTimes the time is added to it
---@return moonring.RolloutRow[] prompts
---@return moonring.Completion[] by prompt, then answer
---@return table<string, number[]> metrics
function groups_of.select(rollouts, prompts, took)
  local run, wanted = rollouts.run, #prompts
  if not run.config.dynamic_sampling then
    return prompts, groups_of.flat(groups_of.judged(rollouts, prompts, took)), {}
  end
  local kept, idle, rounds = {}, {}, 0
  repeat
    local groups = groups_of.judged(rollouts, prompts, took)
    local signal = valuing.value(run, rollouts.of, groups_of.flat(groups)).signal
    rounds = rounds + 1
    for p, group in ipairs(groups) do
      local to = signal[p] and kept or idle
      to[#to + 1] = { prompt = prompts[p], group = group }
    end
    if #kept >= wanted or rounds == run.config.dynamic_sampling_rounds then break end
    prompts = rollouts:take()
  until not prompts
  local numbers = { ["sampling/rounds"] = { rounds, 1 },
    ["sampling/idle_groups"] = { #idle, #idle + #kept } }
  for _, each in ipairs(idle) do kept[#kept + 1] = each end
  local chosen, groups = {}, {}
  for p = 1, wanted do
    chosen[p], groups[p] = kept[p].prompt, kept[p].group
    for _, each in ipairs(groups[p]) do each.prompt = p end
  end
  return chosen, groups_of.flat(groups), numbers
end

--- The completions that a script's `rollout` function returned. Errors: INVALID_ARGUMENT if the
--- number of groups is not that of the prompts, or if a completion has no advantage.
---@param rollouts moonring.Rollouts
---@param prompts moonring.RolloutRow[]
---@return moonring.Completion[] by prompt, then answer
---@return table<string, number[]> metrics
function groups_of.own(rollouts, prompts)
  local groups, reward = rollouts.run.own.rollout(rollouts.run, prompts), { 0, 0 }
  if type(groups) ~= "table" or #groups ~= #prompts then
    errors.fail("rollout: expected a list of groups, one for each of ", #prompts, " prompts, got ",
      type(groups) == "table" and #groups or "a " .. type(groups))
  end
  for p, group in ipairs(groups) do
    if #group ~= rollouts.of.generations then
      errors.fail("rollout: prompt ", p, ": expected ", rollouts.of.generations,
        " completions (num_generations), got ", #group)
    end
    for i, each in ipairs(group) do
      if type(each.advantage) ~= "number" or each.advantage ~= each.advantage then
        errors.fail("rollout: prompt ", p, ", completion ", i,
          ": advantage: expected a number, got ", tostring(each.advantage))
      end
      if each.mask and #each.mask ~= #each.ids then
        errors.fail("rollout: prompt ", p, ", completion ", i, ": mask: expected a number for each",
          " of ", #each.ids, " ids, got ", #each.mask)
      end
      each.prompt = p
      reward = each.reward and { reward[1] + each.reward, reward[2] + 1 } or reward
    end
  end
  return groups_of.flat(groups), { reward = reward[2] > 0 and reward or nil }
end

return groups_of
