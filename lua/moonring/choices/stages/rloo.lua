--- REINFORCE with the mean reward of the prompt's other completions as baseline (RLOO, arXiv
-- 2402.14740): one clipped ratio per completion, and the KL divergence from the reference as part
-- of the reward, as in TRL 0.24's RLOOTrainer. Only the advantages (run/rollouts/advantages.lua)
-- differ from stage grpo.
local grpo = require "moonring.choices.stages.grpo"

local rloo = {}
for name, value in pairs(grpo) do rloo[name] = value end
rloo.name = "rloo"

return rloo
