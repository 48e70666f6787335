--- REINFORCE with the mean reward of the prompt's other completions as baseline (RLOO, arXiv
-- 2402.14740). It uses one clipped ratio per completion, and the KL divergence from the reference
-- is part of the reward, as in TRL 0.24's RLOOTrainer. It differs from stage grpo only in the
-- advantages (run/rollouts/advantages.lua).
local grpo = require "moonring.choices.stages.grpo"

local rloo = {}
for name, value in pairs(grpo) do rloo[name] = value end
rloo.name = "rloo"
rloo.about = "the same with the other completions' mean reward as baseline (RLOO)"

return rloo
