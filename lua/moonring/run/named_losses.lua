--- Several losses of one objective (its field `losses`), whose gradients are computed apart and
-- then combined by a function of the script, as PCGrad does (arXiv 2001.06782).
--
-- Each loss has passes of its own over all micro-batches, so that its gradient is accumulated,
-- summed over ranks and sharded (ZeRO) as that of any loss, and taken before the next one begins.
-- Cost per loss: a forward and a backward. Memory per loss: this rank's shard of the gradient.
local errors = require "moonring.base.errors"
local gradients = require "moonring.run.gradients"
local metrics = require "moonring.base.metrics"
local passes = require "moonring.run.passes"
local tensor = require "moonring.native.tensor"

---@class moonring.named_losses
local named_losses = {}

-- Sets the gradient that the objective makes of those of its losses.
local function combine(engine, found)
  local o = engine.objective
  local made
  if o.combine then
    made = o.combine(found)
  else
    for _, name in ipairs(o.losses) do made = made and made + found[name] or found[name] end
  end
  gradients.set(engine.states, made)
end

--- Runs the passes of a step for each loss, and sets the combined gradient. Arguments, result and
--- errors are those of passes.run. Collective over all ranks.
---@param engine moonring.Engine
---@param step moonring.Step
---@param k integer
---@param count integer
---@param whole integer
---@param retries? boolean
---@return moonring.PassesResult
function named_losses.run(engine, step, k, count, whole, retries)
  if not engine.states then errors.fail "objective: losses: expected an engine with states" end
  local found, made = {}, { loss = 0 }
  for i, name in ipairs(engine.objective.losses) do
    engine.loss_name = name
    local ok, one = pcall(passes.run, engine, step, k, count, whole, retries)
    engine.loss_name = nil
    if not ok then error(one, 0) end
    if one.short then return one end
    made.loss, made.fault = made.loss + one.loss, made.fault or one.fault
    if i == 1 then made.metrics = one.metrics end -- those of the others are equal
    metrics.add(made.metrics, { [name] = { one.loss, 1 } })
    found[name] = gradients.take(engine.states)
  end
  if count > 0 and not made.fault then tensor.scope(combine, engine, found) end
  for _, each in pairs(found) do each:close() end
  return made
end

return named_losses
