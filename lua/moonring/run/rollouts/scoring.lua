--- Computes entropies and log-probs of the completions' tokens before a rollout's first step: under
-- the policy at that time and under the reference. All ranks receive all values.
local autograd = require "moonring.native.autograd"
local creation = require "moonring.base.creation"
local forward = require "moonring.run.forward"
local masks = require "moonring.run.rollouts.completion_mask"
local objectives = require "moonring.native.objectives"
local rollout_settings = require "moonring.choices.rollout_settings"
local tensor = require "moonring.native.tensor"

---@class moonring.scoring
local scoring = {}

--- The values to compute.
---@class moonring.ScoringWish
---@field old boolean the policy's log-probs
---@field entropy boolean
---@field reference boolean the reference's log-probs

-- The offset of each completion in a list of the tokens of all completions.
local function offsets_of(list)
  local offsets, all = {}, 0
  for i, each in ipairs(list) do offsets[i], all = all, all + #each.ids end
  return offsets, all
end

-- Copies values of a micro-batch to the list `flat`: the values of those tokens that predict a
-- token of a completion.
local function place(batch, values, offsets, flat)
  local numbers, records, places = batch:join(values):tolist(), batch:records(), batch:places()
  for i, last in ipairs(batch:ends()) do
    local count = #records[i].ids
    -- A token is predicted by the token before it.
    for j = 1, count do flat[offsets[places[i] + 1] + j] = numbers[last - count + j - 1] end
  end
end

-- The names of the values, in the order in which all ranks process them.
local NAMES = { "old", "entropy", "reference" }

-- Computes the values that `wish` asks for, of this rank's tokens of a micro-batch; by name.
local function numbers_of(run, batch, wish)
  local engine, numbers = run.engine, {}
  local options = { temperature = rollout_settings.temperature(run.config) }
  if wish.reference then
    numbers.reference = run.reference:token_log_probs(batch, options)
  end
  if wish.old or wish.entropy then
    options.statistics = { "entropy" }
    numbers.old = batch:token_log_probs(engine.model, forward.hidden(engine, batch), options)
    numbers.entropy = batch.statistics.entropy
  end
  return numbers
end

-- Adds the values of a micro-batch to the lists in `sums`.
local function add(run, micro, wish, offsets, sums)
  local batch = run.engine:batch(micro)
  local numbers = numbers_of(run, batch, wish)
  for _, name in ipairs(NAMES) do
    if sums[name] then place(batch, numbers[name], offsets, sums[name]) end
  end
end

--- Computes the values that `wish` asks for and stores them in the fields `old`, `reference` and
--- `entropy` of a step's completions, one number per token. Collective over all ranks.
---@param run moonring.Run
---@param step moonring.Step each example is a prompt with its completion
---@param list moonring.Completion[] by position in the step
---@param wish moonring.ScoringWish
function scoring.score(run, step, list, wish)
  local offsets, tokens = offsets_of(list)
  local sums = {}
  for _, name in ipairs(NAMES) do
    if wish[name] then sums[name] = creation.zeros({ tokens }):tolist() end
  end
  for _, micro in ipairs(run.engine:micro_batches(step:micro_batches())) do
    tensor.scope(autograd.no_grad, add, run, micro, wish, offsets, sums)
  end
  for _, name in ipairs(NAMES) do
    -- Each token was computed on one dp rank; the other dp ranks have 0 for it.
    local all = sums[name] and run.mesh:sum_dp(tensor.tensor(sums[name], "fp64")):tolist()
    for i, each in ipairs(all and list or {}) do
      each[name] = {}
      for j = 1, #each.ids do each[name][j] = all[offsets[i] + j] end
    end
  end
end

--- Marks the tokens with the highest entropies (top_entropy_quantile) in the field `high` of each
--- completion: 1 for such a token, 0 for others. Collective over all ranks.
---@param run moonring.Run
---@param list moonring.Completion[] with their entropies, the same on every rank
function scoring.mark(run, list)
  local c, all = run.config, {}
  for _, each in ipairs(list) do
    local counts = run.mesh:rank() == 0 and (each.stopped or not c.mask_truncated_completions)
    for t, value in ipairs(counts and each.entropy or {}) do
      if masks.is_sampled(each, t) then all[#all + 1] = value end
    end
  end
  local least = objectives.entropy_threshold(tensor.tensor(all, "fp64"), c.top_entropy_quantile,
    run.mesh)
  for _, each in ipairs(list) do
    each.high = {}
    for t, value in ipairs(each.entropy) do each.high[t] = value >= least and 1 or 0 end
  end
end

return scoring
