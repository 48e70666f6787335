--- REINFORCE against the mean of a prompt's other completions (RLOO, arXiv 2402.14740), one clipped
-- ratio a completion, the divergence from the reference in the reward: as TRL 0.24's RLOOTrainer
-- has it. All but the advantages (run/rollouts/advantages.lua) as in stage grpo.
local grpo = require "moonring.choices.stages.grpo"

local rloo = {}
for name, value in pairs(grpo) do rloo[name] = value end
rloo.name = "rloo"

return rloo
