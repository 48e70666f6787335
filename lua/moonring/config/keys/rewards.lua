--- Keys of rewards, of the stages that learn from them. What a row says: keys/init.lua; what
-- reward_funcs may be: choices/reward_specs.lua.
local null = require("moonring.native.system").null
local specs = require "moonring.choices.reward_specs"

local ROLLOUTS = { "grpo", "rloo", "online_dpo" }

return {
  { title = "Rewards", rows = {
    { "reward_funcs", "any", null, "what scores completions (docs/rewards.md): the path of a Lua "
      .. "file, format, exact, length, json, model, command or url with what it is given, or a "
      .. "list of them", stages = ROLLOUTS,
      mark = function(c) return specs.mark(c.reward_funcs) end },
    { "reward_weights", "list", null, "what each function's number is multiplied by before they "
      .. "are added up, in the order of all functions; absent: 1 each", stages = ROLLOUTS },
    { "reward_timeout", "float", 60, "seconds that one call of a reward may take, on the rows that "
      .. "a rank has drawn", least = 1e-3, most = 1e7, resume = "free",
      stages = ROLLOUTS },
    { "reward_memory_mib", "int", 1024, "MiB that the Lua state of a file of rewards may take",
      least = 16, resume = "free", stages = ROLLOUTS },
  } },
}
