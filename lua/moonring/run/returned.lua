--- Checks what the functions of an objective return, before the engine uses it. The usual mistake
-- is a missing `return`. Messages name the function's file and line.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"
local tensor = require "moonring.native.tensor"

---@class moonring.returned
local returned = {}

-- Describes a value for messages.
local function words(value)
  if value == nil then return "nothing (is a `return` missing?)" end
  if tensor.is_tensor(value) then
    return ("a tensor of shape [%s]"):format(table.concat(value:shape(), ", "))
  end
  if type(value) == "number" or type(value) == "boolean" then return tostring(value) end
  return "a " .. type(value)
end

-- Raises the error for a value that the objective's function `name` returned.
local function refuse(name, of, value, ...)
  local place = system.function_place(of)
  errors.fail("the objective's ", name, place ~= "" and " (" .. place .. ")" or "", " returned ",
    words(value), ", expected ", table.concat { ... })
end

--- Checks a batch's contribution to the count.
---@param count function the objective's
---@param value any what it returned
---@return number
function returned.count(count, value)
  if type(value) ~= "number" then
    refuse("count", count, value, "a number: the batch's share of the divisor",
      tensor.is_tensor(value) and " (x:item() is a tensor's number)" or "")
  end
  return value
end

--- Checks the weights of tokens: a tensor with one element per token of the whole stream.
---@param batch moonring.Batch
---@param weights function the objective's
---@return moonring.Tensor
function returned.weights(batch, weights)
  local value, tokens = weights(batch), batch:sequence():tokens()
  if not tensor.is_tensor(value) or value:dim() ~= 1 or value:size(0) ~= tokens then
    refuse("weights", weights, value, "a tensor of shape [", tokens,
      "]: a factor for each token of the stream")
  end
  return value
end

-- Whether a value is a number, or a tensor with one element.
local function is_number(value)
  return type(value) == "number" or tensor.is_tensor(value) and value:numel() == 1
end

local function check_metrics(loss, metrics)
  if type(metrics) ~= "table" then
    refuse("loss", loss, metrics, "a table of metrics, name -> { sum, count }, after the sum")
  end
  for name, value in pairs(metrics) do
    if type(name) ~= "string" or name:find "%s" then
      errors.fail("the objective's loss (", system.function_place(loss), ") returned a metric of ",
        "the name '", tostring(name), "', expected a name without spaces")
    end
    local list = type(value) == "table" and value or { value }
    local is_pair = tensor.is_tensor(value) and value:numel() == 2 -- sum and count
    if not is_pair and (not is_number(list[1]) or list[2] ~= nil and not is_number(list[2])) then
      local wrong = is_number(list[1]) and list[2] or list[1]
      refuse("loss", loss, wrong, "numbers in the metric ", name, ": { sum, count }")
    end
  end
end

--- Checks what `loss` returned: the sum over the batch, and metrics.
---@param loss function the objective's
---@param sum any
---@param metrics any
function returned.loss(loss, sum, metrics)
  if not is_number(sum) then
    refuse("loss", loss, sum, "the sum over the batch: a tensor with one element, or a number",
      tensor.is_tensor(sum) and " (x:sum() adds the elements)" or "")
  end
  if metrics ~= nil then check_metrics(loss, metrics) end
end

--- Checks what `values` returned, and lists its tensors in the order of their names.
---@param values function the objective's
---@param value any
---@return moonring.Tensor[]
function returned.values(values, value)
  if tensor.is_tensor(value) then return { value } end
  local expected = "a tensor or a table of tensors"
  if type(value) ~= "table" then refuse("values", values, value, expected) end
  local list = {}
  for name, each in pairs(value) do
    if not tensor.is_tensor(each) then
      errors.fail("the objective's values (", system.function_place(values), ") returned a table ",
        "with ", words(each), " as '", tostring(name), "', expected ", expected)
    end
    list[#list + 1] = each
  end
  if #list == 0 then
    errors.fail("the objective's values (", system.function_place(values),
      ") returned an empty table, expected ", expected)
  end
  return list
end

return returned
