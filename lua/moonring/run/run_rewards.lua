--- Opens the reward functions of a run that generates completions.
local compute = require "moonring.choices.compute"
local errors = require "moonring.base.errors"
local rewards = require "moonring.rewards"

---@class moonring.run_rewards
local run_rewards = {}

--- Opens the functions in reward_funcs. Errors: INVALID_ARGUMENT if reward_weights has another
--- number of values.
---@param run moonring.Run
---@return moonring.Rewards
function run_rewards.open(run)
  local c = run.config
  local opened = rewards.open(c.reward_funcs, { tokenizer = run.tokenizer, device = run.device,
    timeout = c.reward_timeout, memory_mib = c.reward_memory_mib,
    precision = compute.precision(c), say = function(line) run.log:say(line) end })
  local names, weights = opened:names(), c.reward_weights
  if weights and #weights ~= #names then
    errors.fail("reward_weights: expected a number for each of ", #names, " reward functions (",
      table.concat(names, ", "), "), got ", #weights)
  end
  return opened
end

return run_rewards
