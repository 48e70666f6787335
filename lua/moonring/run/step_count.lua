--- What a step's loss is divided by, known before the first forward.
local tensor = require "moonring.native.tensor"

---@class moonring.step_count
local step_count = {}

--- The count of a whole step; nil where it has nothing to learn: it has no examples, its loss is of
--- log-probs and no document predicts anything, or the count is not above 0. Collective over dp.
---@param engine moonring.Engine
---@param step moonring.Step
---@return integer? count
---@return string? why where there is none
function step_count.of(engine, step)
  local o, micros = engine.objective, step:micro_batches()
  local count = engine:total(micros, o.count)
  if count ~= math.floor(count) then
    error("INVALID_ARGUMENT: the objective's count: wanted a whole number, got " .. count, 0)
  end
  local targets = engine:total(micros, function(batch) return batch:count_targets() end)
  local examples = engine:total(micros, function(batch) return batch:size() end)
  local sums = engine.mesh:sum_dp(tensor.tensor({ count, targets, examples }, "int64"))
  count, targets, examples = unpack(sums:tolist())
  if examples == 0 then return nil, "no example in it" end
  if targets == 0 and (not o.values or o.of_targets) then
    return nil, "no label in it but -100, or none after a document's first token"
  end
  if count <= 0 then return nil, ("the objective's count of it is %d"):format(count) end
  return count
end

return step_count
