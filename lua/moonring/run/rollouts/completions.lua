--- Completions of prompts. Each dp rank generates those of its own prompts, and all ranks receive
-- all of them. Sampling depends only on the seed and the prompt's number, not on ranks or batches.
local compute = require "moonring.choices.compute"
local errors = require "moonring.base.errors"
local hooks = require "moonring.run.rollouts.hooks"
local objective = require "moonring.choices.objective"
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
---@field stopped boolean whether a stop token or a stop text ended it; otherwise it was truncated
--- `log_probs`: of each id when it was sampled, at the sampling temperature; 0 for a given one.
---@field log_probs number[]
--- `mask`, with the hook `continue`: for each id 1 if it was sampled, 0 if it was given.
---@field mask? integer[]
---@field turns? integer with the hook `continue`
---@field rewards? table<string, number> by function, if the function returned a value
---@field reward? number
---@field advantage? number
---@field old? number[] log-probs before the rollout's first step (scoring.lua)
---@field reference? number[] the reference's
---@field entropy? number[]

-- Generates this rank's part. Returns the results as a text for the other ranks. If `given` has
-- functions, only the first rank of an sp group calls them; the others get no prompts, unless they
-- share the sequences.
local function generated(rollouts, prompts, how, given)
  local run, mesh = rollouts.run, rollouts.run.mesh
  local wanted = { around = run.objective.around,
    lockstep = compute.holds_together(run.config) and mesh or nil }
  for name, value in pairs(how) do wanted[name] = value end
  local mine, longest = {}, 0
  for p = mesh:dp_rank() + 1, #prompts, mesh:dp_size() do
    mine[#mine + 1] = p
    longest = math.max(longest, #prompts[p].ids)
  end
  if longest >= run.config.rollout_spread_length then wanted.attention = run.attention end
  if given and not wanted.attention and mesh:sp_rank() > 0 then mine = {} end
  if given then hooks.add(rollouts, given, prompts, mine, wanted) end
  local asked, results = {}, {}
  for i, p in ipairs(mine) do asked[i] = { ids = prompts[p].ids, key = prompts[p].number } end
  local made = run.model:rollout(asked, wanted)
  for i, p in ipairs(mine) do results[i] = { prompt = p, answers = made[i] } end
  -- One rank of an sp group sends its completions.
  return system.json_encode { results = mesh:sp_rank() == 0 and results or {} }
end

-- The results of all ranks. If a function of the script failed on one, all raise its error.
local function gather(mesh, text)
  local found, failure = {}, nil
  for r, of_rank in ipairs(mesh:gather(text)) do
    found[r] = system.json_decode(of_rank, "completions")
    local why = found[r].failure and errors.decode(found[r].failure)
    -- ABORTED: a rank that only says that another one failed.
    if why and (not failure or errors.is(failure, "ABORTED")) then failure = why end
  end
  if failure then error(failure, 0) end
  return found
end

--- Generates the completions of prompts. Collective over all ranks.
---@param rollouts moonring.Rollouts
---@param prompts moonring.RolloutRow[]
---@param how moonring.RolloutOptions
---@param given? moonring.RolloutHooks functions that take part
---@return moonring.Completion[][]
function completions.sample(rollouts, prompts, how, given)
  local run = rollouts.run
  objective.refuse_inside(run.objective, "a rollout")
  local text
  if given and run.mesh:size() > 1 then
    local ok, result = pcall(generated, rollouts, prompts, how, given)
    text = ok and result or system.json_encode { failure = errors.encode(result) }
  else
    text = generated(rollouts, prompts, how, given)
  end
  local all = {}
  for _, of_rank in ipairs(gather(run.mesh, text)) do
    for _, each in ipairs(of_rank.results) do
      for _, answer in ipairs(each.answers) do
        answer.prompt, answer.text = each.prompt, run.tokenizer:decode(answer.ids, true)
      end
      all[each.prompt] = each.answers
    end
  end
  return all
end

return completions
