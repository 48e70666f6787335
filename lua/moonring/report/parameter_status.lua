--- The key print_param_status: logs one line per weight before the training.

---@class moonring.parameter_status
local parameter_status = {}

local LINE = "name: %s, dtype: %s, shape: %s, device: %s, trainable: %s"

-- The lists that together contain each weight of the run once: the parameters of an adapter's base,
-- and those of the engine.
local function lists(run)
  local base = run.model:base()
  return { base and base:parameters() or nil, run.engine.parameters }
end

--- Logs each weight, in the order of a forward. An adapter's weights follow those of its base.
---@param run moonring.Run with its components
function parameter_status.tell(run)
  for _, parameters in pairs(lists(run)) do
    for _, each in ipairs(parameters:list()) do
      run.log:say(LINE:format(each:name(), each:dtype(), table.concat(each:shape(), " x "),
        run.device, each:trainable() and "yes" or "no"))
    end
  end
end

return parameter_status
