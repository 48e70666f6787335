--- DPO on generated completions (arXiv 2402.04792): of each prompt's completions the one with the
-- highest reward is chosen, the one with the lowest rejected. If all rewards are equal, these are
-- the first and the last. TRL also uses two completions. The loss is that of stage dpo, with
-- `beta`.
local dpo = require "moonring.choices.stages.dpo"
local rollout_settings = require "moonring.choices.rollout_settings"

local online = {}
for name, value in pairs(dpo) do online[name] = value end
online.name, online.reads = "online_dpo", "prompts"
online.about = "DPO on generated completions: the best and the worst by their rewards"

--- The objective of stage dpo.
---@param c moonring.Configuration
---@return moonring.Objective
function online.objective(c)
  local with_beta = setmetatable({ pref_beta = rollout_settings.beta(c) }, { __index = c })
  return dpo.objective(with_beta)
end

online.rollouts = {}

--- No log-probs are needed before the step, which computes those of the reference itself.
function online.rollouts.scores() return nil end

-- The first completion with the greatest reward, and the last other one with the least.
local function best_and_worst(group)
  local best, worst = 1, #group
  for i, each in ipairs(group) do
    if each.reward > group[best].reward then best = i end
  end
  if best == worst then worst = 1 end
  for i, each in ipairs(group) do
    if i ~= best and each.reward < group[worst].reward then worst = i end
  end
  return group[best], group[worst]
end

--- Makes the examples of a step, one pair per prompt.
---@param list moonring.Completion[]
---@param document fun(completion: moonring.Completion): table
---@return table[] examples
---@return table[] records { chosen, rejected }
function online.rollouts.examples(list, document)
  local groups, examples, records = {}, {}, {}
  for _, each in ipairs(list) do
    local group = groups[#groups]
    if not group or group[1].prompt ~= each.prompt then
      group = {}
      groups[#groups + 1] = group
    end
    group[#group + 1] = each
  end
  for i, group in ipairs(groups) do
    local chosen, rejected = best_and_worst(group)
    records[i] = { chosen = chosen, rejected = rejected }
    examples[i] = { family = chosen.prompt, documents = { document(chosen), document(rejected) } }
  end
  return examples, records
end

--- Refuses incompatible keys.
---@param c moonring.Configuration
function online.check(c)
  rollout_settings.check(c)
  dpo.check(setmetatable({ pref_beta = rollout_settings.beta(c) }, { __index = c }))
end

return online
