--- The numbers of an optimizer's step, which come with each call (adam_params).
local errors = require "moonring.base.errors"
local fields = require "moonring.serve.fields"

---@class moonring.serve.adam_params
local adam_params = {}

--- The numbers of one step of AdamW.
---@class moonring.serve.AdamParams
---@field learning_rate number
---@field beta1 number
---@field beta2 number
---@field eps number
---@field weight_decay number
---@field grad_clip_norm number 0: no clipping

-- Name, default, least value, and the value it must be below.
local ROWS = {
  { "learning_rate", 1e-4, 0, math.huge },
  { "beta1", 0.9, 0, 1 },
  { "beta2", 0.95, 0, 1 },
  { "eps", 1e-12, 0, math.huge },
  { "weight_decay", 0.0, 0, math.huge },
  { "grad_clip_norm", 0.0, 0, math.huge },
}

local function range(least, below)
  if below == math.huge then return ("at least %g, and finite"):format(least) end
  return ("at least %g and less than %g"):format(least, below)
end

--- Reads the numbers of a request of optim_step. Errors: INVALID_ARGUMENT for an unknown name, with
--- the nearest one, or a number out of range; UNIMPLEMENTED for another optimizer.
---@param request table
---@return moonring.serve.AdamParams
function adam_params.read(request)
  local other = fields.value(request.optimizer_params)
  if other ~= nil then
    local kind = type(other) == "table" and fields.value(other.type)
    errors.raise("UNIMPLEMENTED", "optimizer_params: ", kind and "the optimizer '"
      .. tostring(kind) .. "'" or "another optimizer", " is not offered; expected adam_params ",
      "(AdamW)")
  end
  local given, names = fields.get(request, "adam_params", "table"), { "type" }
  for i, row in ipairs(ROWS) do names[i + 1] = row[1] end
  fields.only(given, names, "adam_params")
  local params = {}
  for _, row in ipairs(ROWS) do
    local name, default, least, below = unpack(row)
    local value = fields.get(given, name, "number", default, "adam_params")
    if not (value >= least and value < below) then
      errors.fail("adam_params: ", name, ": expected ", range(least, below), ", got ",
        tostring(value))
    end
    params[name] = value
  end
  return params
end

return adam_params
