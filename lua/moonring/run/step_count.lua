--- The count of a step: the number by which its loss is divided, known before the first forward.
local errors = require "moonring.base.errors"
local tensor = require "moonring.native.tensor"

---@class moonring.step_count
local step_count = {}

-- Computes the count of a step; nil and the reason if there is nothing to train on.
local function of_numbers(o, count, targets, examples)
  if examples == 0 then return nil, "no example in it" end
  if targets == 0 and (not o.values or o.of_targets) then
    return nil, "no label in it but -100, or none after a document's first token"
  end
  if count <= 0 then return nil, ("the objective's count of it is %d"):format(count) end
  return count
end

-- Computes the counts with local SGD: the count of this group's share of the step, 0 if the share
-- has nothing to train on; and the sum over all groups.
local function apart(engine, mine)
  local own = of_numbers(engine.objective, unpack(mine)) or 0
  local total = engine.mesh:sum_dp(tensor.tensor({ own }, "int64")):tolist()[1]
  if total == 0 then return nil, "no group's share of it has anything" end
  return own, nil, total
end

--- The count of a whole step or, with local SGD, of this group's share of it. It is nil if there is
--- nothing to train on: the step has no examples, or the loss uses log-probs and no document has a
--- target, or the count is 0 or less. Collective over dp.
---@param engine moonring.Engine
---@param step moonring.Step
---@return integer? count with local SGD 0 for a share with nothing to train
---@return string? why the reason if the count is nil
---@return integer? total over all groups
function step_count.of(engine, step)
  local o, micros = engine.objective, step:micro_batches()
  local count = engine:total(micros, o.count)
  if count ~= math.floor(count) then
    errors.fail("the objective's count: expected a whole number, got ", count)
  end
  local targets = engine:total(micros, function(batch) return batch:count_targets() end)
  local examples = engine:total(micros, function(batch) return batch:size() end)
  local mine = { count, targets, examples }
  local sums = engine.mesh:sum_dp(tensor.tensor(mine, "int64")):tolist()
  local whole, why = of_numbers(o, unpack(sums))
  if not whole then return nil, why end
  if engine.apart then return apart(engine, mine) end
  return whole, nil, whole
end

return step_count
