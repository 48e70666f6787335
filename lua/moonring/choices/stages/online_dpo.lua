--- DPO between a prompt's own completions: that of the highest reward is chosen, that of the lowest
-- rejected (arXiv 2402.04792). Where all have the same reward the first and the last are taken, as
-- TRL takes two. The loss is stage dpo's, with `beta`.
local dpo = require "moonring.choices.stages.dpo"
local rollout_settings = require "moonring.choices.rollout_settings"

local online = {}
for name, value in pairs(dpo) do online[name] = value end
online.name, online.reads = "online_dpo", "prompts"

--- The objective of stage dpo.
---@param c moonring.Configuration
---@return moonring.Objective
function online.objective(c)
  local with_beta = setmetatable({ pref_beta = rollout_settings.beta(c) }, { __index = c })
  return dpo.objective(with_beta)
end

online.rollouts = {}

--- Nothing: the reference is looked at in the step.
function online.rollouts.scores() return nil end

-- The first of the greatest, and the last of the least but that one.
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

--- The examples of a step: a pair a prompt.
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

--- Refuses keys that do not go together.
---@param c moonring.Configuration
function online.check(c)
  rollout_settings.check(c)
  dpo.check(setmetatable({ pref_beta = rollout_settings.beta(c) }, { __index = c }))
end

return online
