--- An objective's survey: a pass over a step before its first backward. The objective receives the
-- log-probs of all documents of the step, which KTO's KL term and BCO's running mean need.
local autograd = require "moonring.native.autograd"
local readings = require "moonring.base.readings"
local tensor = require "moonring.native.tensor"

---@class moonring.survey
local survey = {}

-- Computes the log-probs of this dp rank's documents. Returns lists by position in the step:
-- log-probs of the policy, log-probs of the reference, and numbers of targets.
local function numbers_of(engine, step, wanted, reference)
  local width = wanted.per_example
  local policy, of_reference, targets = {}, {}, {}
  for i = 1, step:size() * width do policy[i], of_reference[i], targets[i] = 0, 0, 0 end
  local mismatched, later = wanted.documents == "mismatched", readings.new()
  local micros = mismatched and step:mismatched() or step:micro_batches()
  for _, micro in ipairs(engine:micro_batches(micros)) do
    tensor.scope(autograd.no_grad, function()
      local batch = engine:batch(micro, mismatched and 1 or 0)
      local mine, places = engine:values(batch), batch:places()
      if type(mine) == "table" then
        error("INVALID_ARGUMENT: a survey sees one tensor, a number a document: the objective's "
          .. "values gave a table", 0)
      end
      local documents = mine:numel()
      local all = { mine, reference:log_probs(batch), batch:document_targets() }
      later:want(all, function(numbers)
        for i, place in ipairs(places) do
          for s = 1, width do
            local from, to = (i - 1) * width + s, place * width + s
            policy[to], of_reference[to] = numbers[from], numbers[documents + from]
            targets[to] = numbers[2 * documents + from]
          end
        end
      end)
    end)
  end
  later:read()
  return policy, of_reference, targets
end

--- Runs the survey of an engine's objective over the whole step. Every rank must call it. Options:
---   group  number of examples that share one term
---   alone  only this dp rank has this step
---   empty  this rank has no step, and only takes part in collectives
---@param engine moonring.Engine
---@param step moonring.Step
---@param how { group: integer?, reference: moonring.Reference?, alone: boolean?, empty: boolean? }
---@return table<string, number[]> metrics: name -> { sum, count }
function survey.run(engine, step, how)
  local wanted = engine.objective.survey
  if not wanted then return {} end
  local policy, of_reference, targets = numbers_of(engine, step, wanted, how.reference)
  if how.empty then return {} end
  if not how.alone then
    local mine = tensor.tensor({ policy, of_reference, targets }, "fp64")
    local rows = engine.mesh:sum_dp(mine):tolist()
    policy, of_reference, targets = rows[1], rows[2], rows[3]
  end
  local function fp64(list) return tensor.tensor(list, "fp64") end
  local told = wanted.run(fp64(policy), fp64(of_reference), fp64(targets), how.group)
  -- The metrics are the same on all dp ranks and are summed over them later, so only one returns
  -- them.
  return (how.alone or engine.mesh:dp_rank() == 0) and told or {}
end

return survey
