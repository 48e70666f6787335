--- The evaluations of a run, on each of its evaluation data sets in turn.
local batching = require "moonring.choices.batching"
local metrics = require "moonring.base.metrics"
local prediction = require "moonring.run.prediction"
local system = require "moonring.native.system"

---@class moonring.evaluation_sets
local evaluation_sets = {}

--- Evaluates on each data set and logs the result. Collective over all ranks.
---@param run moonring.Run
---@param work? moonring.WorkCount counts rows
---@return table<string, number> numbers by their "eval_" names
function evaluation_sets.all(run, work)
  local c, all = run.config, {}
  if work then
    for _, one in ipairs(run.evals or {}) do work:expect(one.dataset:size()) end
  end
  for _, one in ipairs(run.evals or {}) do
    local began = system.clock()
    local result
    if c.predict_with_generate then
      result = prediction.means(prediction.answers(run, one.dataset, prediction.counted(work)))
    elseif run.rollouts then
      result = metrics.means(run.rollouts:evaluate(one.dataset))
    else
      result = run.engine:evaluate(one.dataset, { batch = c.per_device_eval_batch_size,
        micro_batch_tokens = batching.micro_batch_tokens(c), reference = run.references[one.key],
        share_prefixes = c.share_prefixes, accuracy = c.compute_accuracy, work = work })
    end
    local seconds = system.clock() - began
    local named = run.log:evaluation(result, one.dataset:size(), seconds, one.name)
    for name, value in pairs(named) do all[name] = value end
  end
  return all
end

--- In stage pt, adds the perplexity, exp(loss), of each data set, as the last evaluation of
--- LLaMA-Factory does.
---@param c moonring.Configuration
---@param named table<string, number> numbers by their "eval_" names
---@return table<string, number> named the same table
function evaluation_sets.with_perplexity(c, named)
  local found = {}
  for name, value in pairs(c.stage == "pt" and named or {}) do
    local prefix = name:match "^(eval_.*)loss$"
    if prefix then found[prefix .. "perplexity"] = math.exp(value) end
  end
  for name, value in pairs(found) do named[name] = value end
  return named
end

return evaluation_sets
