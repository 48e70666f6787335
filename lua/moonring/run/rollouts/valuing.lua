--- Computes the total rewards and the advantages of completions, by the rule of the stage
-- (run/rollouts/advantages.lua).
local advantages = require "moonring.run.rollouts.advantages"
local masks = require "moonring.run.rollouts.completion_mask"

---@class moonring.valuing
local valuing = {}

-- Reward functions that configuration keys add: name -> function that scores one completion.
local function custom_functions(c)
  local own = {}
  if c.soft_overlong_cache then
    local how = { max_length = c.max_completion_length, cache = c.soft_overlong_cache }
    own.soft_overlong = function(each) return advantages.overlong(#each.ids, how) end
  end
  if c.missing_eos_penalty then
    own.missing_eos = function(each) return each.stopped and 0 or -c.missing_eos_penalty end
  end
  return own
end

-- Lists all reward functions, with their values for all completions.
local function functions_of(run, list)
  local functions = {}
  for f, name in ipairs(run.rewards:names()) do
    local values = {}
    for i, each in ipairs(list) do values[i] = each.rewards[name] end
    functions[f] = { name = name, values = values,
      weight = tonumber((run.config.reward_weights or {})[f] or 1) }
  end
  for name, value_of in pairs(custom_functions(run.config)) do
    local values = {}
    for i, each in ipairs(list) do values[i] = value_of(each) end
    functions[#functions + 1] = { name = name, values = values }
  end
  table.sort(functions, function(a, b) return a.name < b.name end)
  return functions
end

-- For each completion, the sum over its sampled tokens of the policy's log-prob minus the
-- reference's; nil if the reference's are unknown. Also returns the completions' numbers of sampled
-- tokens.
local function divergences(list)
  local sums, tokens = {}, {}
  for i, each in ipairs(list) do
    if not each.reference then return nil end
    sums[i], tokens[i] = 0, masks.sampled(each)
    for t, old in ipairs(each.old) do
      if masks.is_sampled(each, t) then sums[i] = sums[i] + old - each.reference[t] end
    end
  end
  return sums, tokens
end

--- Computes rewards and advantages of the completions of some prompts, and stores them in the
--- completions. The completions of one prompt must be consecutive.
---@param run moonring.Run
---@param of moonring.RolloutSettings
---@param list moonring.Completion[]
---@return moonring.Advantages
function valuing.value(run, of, list)
  local c = run.config
  local given = { functions = functions_of(run, list), answers = #list,
    generations = of.generations }
  local found
  if c.stage == "rloo" then
    given.beta, given.normalize = of.beta, c.normalize_advantages
    given.kl, given.tokens = divergences(list)
    if not given.kl then given.beta = nil end -- not scored yet
    found = advantages.leave_one_out(given)
  else
    given.scale_rewards = c.scale_rewards
    found = advantages.of_groups(given)
  end
  for i, each in ipairs(list) do
    each.reward, each.advantage = found.rewards[i], found.advantages[i]
  end
  return found
end

return valuing
