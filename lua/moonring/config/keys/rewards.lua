--- Keys of reward functions, for stages that train on rewards. Fields of a row: keys/init.lua;
-- values of reward_funcs: choices/reward_specs.lua.
local null = require("moonring.native.system").null
local specs = require "moonring.choices.reward_specs"

local ROLLOUTS = { "grpo", "rloo", "online_dpo" }

return {
  { title = "Rewards", rows = {
    { "reward_funcs", "any", null, "reward functions of completions (docs/rewards.md): the path of "
      .. "a Lua or Python file; format, exact, length, json, model, command or url with an "
      .. "argument; or a list of these", stages = ROLLOUTS,
      mark = function(c) return specs.mark(c.reward_funcs) end },
    { "reward_weights", "list", null, "factor of each reward function in the sum, in the order of "
      .. "the functions; absent: 1 each", stages = ROLLOUTS },
    { "reward_timeout", "float", 60, "time limit in seconds for one call of a reward function on a "
      .. "rank's rows", least = 1e-3, most = 1e7, resume = "free",
      stages = ROLLOUTS },
    { "reward_memory_mib", "int", 1024, "memory limit in MiB for the Lua state of a file of "
      .. "rewards",
      least = 16, resume = "free", stages = ROLLOUTS },
  } },
}
