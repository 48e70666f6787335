--- Completions of prompts. Each dp rank generates those of its own prompts, and all ranks receive
-- all of them. Sampling depends only on the seed and the prompt's number, not on ranks or batches.
local compute = require "moonring.choices.compute"
local system = require "moonring.native.system"

---@class moonring.completions
local completions = {}

--- One prompt of a rollout.
---@class moonring.RolloutRow
---@field ids integer[]
---@field columns table<string, any> of its data set's row
---@field example integer index in the data set, from 0
---@field number integer counted over all prompts of the run; the key of its random numbers

--- One completion, with values that are computed later.
---@class moonring.Completion
---@field prompt integer index of its prompt in the rollout, from 1
---@field ids integer[]
---@field text string without special tokens
---@field stopped boolean whether a stop id ended it; otherwise it was truncated
---@field log_probs number[] of each id when it was sampled, at the sampling temperature
---@field rewards? table<string, number> by function, if the function returned a value
---@field reward? number
---@field advantage? number
---@field old? number[] log-probs before the rollout's first step (scoring.lua)
---@field reference? number[] the reference's
---@field entropy? number[]

--- Generates the completions of prompts. Collective over all ranks.
---@param run moonring.Run
---@param prompts moonring.RolloutRow[]
---@param how moonring.RolloutOptions
---@return moonring.Completion[][]
function completions.sample(run, prompts, how)
  local mesh, c = run.mesh, run.config
  local options = { around = run.objective.around,
    lockstep = compute.holds_together(c) and mesh or nil }
  for name, value in pairs(how) do options[name] = value end
  local mine, asked, longest = {}, {}, 0
  for p = mesh:dp_rank() + 1, #prompts, mesh:dp_size() do
    mine[#mine + 1] = p
    asked[#asked + 1] = { ids = prompts[p].ids, key = prompts[p].number }
    longest = math.max(longest, #prompts[p].ids)
  end
  if longest >= c.rollout_spread_length then options.attention = run.attention end
  local made, told = run.model:rollout(asked, options), {}
  for i, p in ipairs(mine) do told[i] = { prompt = p, answers = made[i] } end
  -- The ranks of an sp group have the same completions, so only one of them sends them.
  local text = mesh:sp_rank() == 0 and system.json_encode(told) or "[]"
  local all = {}
  for _, of_rank in ipairs(mesh:gather(text)) do
    for _, each in ipairs(system.json_decode(of_rank, "completions")) do
      for _, answer in ipairs(each.answers) do
        answer.prompt, answer.text = each.prompt, run.tokenizer:decode(answer.ids, true)
      end
      all[each.prompt] = each.answers
    end
  end
  return all
end

return completions
