--- The table that the loss of an objective with several losses returns (its field `losses`): a sum
-- by name.
local errors = require "moonring.base.errors"

---@class moonring.loss_table
local loss_table = {}

local function check(names, losses)
  local known = {}
  for _, name in ipairs(names) do known[name] = true end
  if type(losses) ~= "table" then
    errors.fail("the objective's loss: expected a table of its losses (", table.concat(names, ", "),
      "), got a ", type(losses) == "userdata" and "tensor" or type(losses))
  end
  for name in pairs(losses) do
    if not known[name] then
      errors.fail("the objective's loss: '", tostring(name), "' is not in its field losses (",
        table.concat(names, ", "), ")")
    end
  end
end

--- The loss of a micro-batch whose gradient is being computed; outside of training the sum of all.
--- Errors: INVALID_ARGUMENT for anything but a table of the names in `losses`.
---@param engine moonring.Engine
---@param losses table<string, moonring.Tensor | number>
---@return moonring.Tensor | number
function loss_table.pick(engine, losses)
  local names, sum = engine.objective.losses, nil
  check(names, losses)
  if engine.loss_name then return losses[engine.loss_name] or 0 end
  for _, name in ipairs(names) do
    local one = losses[name]
    if one then sum = sum and sum + one or one end
  end
  return sum or 0
end

return loss_table
