--- Checks of the datums of a forward_backward request, before anything is computed.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.serve.datum_checks
local datum_checks = {}

local FLOATS = { fp32 = true, fp64 = true, bf16 = true, int64 = true, int32 = true }

local function shape_text(tensor) return "[" .. table.concat(tensor:shape(), ", ") .. "]" end

-- The place of the first element for which a bool tensor is true, as words ("position 3"), and its
-- index in the flattened tensor.
local function place_of(mask)
  local flat = mask:flatten():nonzero()[{ 0, 0 }]:item()
  if mask:dim() < 2 then return "position " .. flat, flat end
  local k = mask:size(1)
  return ("position %d, candidate %d"):format(math.floor(flat / k), flat % k), flat
end

local function check_ids(where, ids, vocabulary)
  local wrong = ids:lt(0):logical_or(ids:ge(vocabulary))
  if not wrong:any():item() then return end
  local place, flat = place_of(wrong)
  errors.fail(where, ": ", place, ": id ", ids:flatten()[flat]:item(), ", expected 0 to ",
    vocabulary - 1, ", the ids of the model's vocabulary")
end

local function check_finite(where, values)
  local wrong = values:isfinite():logical_not()
  if not wrong:any():item() then return end
  local place, flat = place_of(wrong)
  errors.fail(where, ": ", place, ": ", tostring(values:flatten()[flat]:item()),
    ", expected a finite number")
end

local function check_names(number, inputs, loss)
  local names = { "target_tokens" }
  for name in pairs(loss.inputs) do names[#names + 1] = name end
  table.sort(names)
  local given = {}
  for name in pairs(inputs) do given[#given + 1] = name end
  table.sort(given)
  local known = {}
  for _, name in ipairs(names) do known[name] = true end
  for _, name in ipairs(given) do
    if not known[name] then
      errors.fail("datum ", number, ": loss_fn_inputs: ", loss.name, " has no '", name, "'",
        system.did_you_mean(name, names), "; it has ", table.concat(names, ", "))
    end
  end
  local needed = {}
  for _, name in ipairs(names) do
    local is_needed = name == "target_tokens" or loss.inputs[name] == "required"
    needed[#needed + 1] = is_needed and name or nil
  end
  for _, name in ipairs(needed) do
    if not inputs[name] then
      errors.fail("datum ", number, ": loss_fn_inputs: ", name, " is missing; ", loss.name,
        " needs ", table.concat(needed, ", "))
    end
  end
end

local function check_targets(number, tokens, targets, vocabulary)
  local where = ("datum %d: target_tokens"):format(number)
  if targets:dtype() ~= "int64" and targets:dtype() ~= "int32" then
    errors.fail(where, ": expected integers, got ", targets:dtype())
  end
  local fits = (targets:dim() == 1 or targets:dim() == 2) and targets:size(0) == tokens:numel()
  if not fits or targets:numel() == 0 then
    errors.fail(where, ": expected one for each of the ", tokens:numel(), " tokens, [",
      tokens:numel(), "], or K candidates each, [", tokens:numel(), ", K]; got ",
      shape_text(targets))
  end
  check_ids(where, targets, vocabulary)
end

local function check_input(number, name, values, targets)
  local where = ("datum %d: %s"):format(number, name)
  if not FLOATS[values:dtype()] then
    errors.fail(where, ": expected numbers, got ", values:dtype())
  end
  if shape_text(values) ~= shape_text(targets) then
    errors.fail(where, ": expected the shape of target_tokens, ", shape_text(targets), "; got ",
      shape_text(values))
  end
  if values:dtype():sub(1, 3) ~= "int" then check_finite(where, values) end
end

--- Checks all datums of a call. Errors: INVALID_ARGUMENT, with the datum's number (from 0) and the
--- position.
---@param list moonring.serve.Datum[]
---@param loss moonring.serve.Loss
---@param vocabulary integer number of ids
function datum_checks.check(list, loss, vocabulary)
  if #list == 0 then errors.fail "data: expected one datum at least, got none" end
  for i, datum in ipairs(list) do
    local number, tokens = i - 1, datum.tokens
    if tokens:numel() == 0 then
      errors.fail("datum ", number, ": model_input: expected one token at least, got none")
    end
    check_ids(("datum %d: model_input"):format(number), tokens, vocabulary)
    check_names(number, datum.inputs, loss)
    local targets = datum.inputs.target_tokens
    check_targets(number, tokens, targets, vocabulary)
    for name in pairs(loss.inputs) do
      if datum.inputs[name] then check_input(number, name, datum.inputs[name], targets) end
    end
  end
end

return datum_checks
