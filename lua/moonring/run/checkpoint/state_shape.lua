--- Validates training_state.json, which may be damaged or come from an untrusted source: checks
-- that numbers are numbers, steps are whole and tables are tables. saved_state.lua, which reads the
-- file, relies on these checks.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.state_shape
local state_shape = {}

local MOST = 2 ^ 53

local IS = {
  whole = function(value) -- false for NaN too
    return type(value) == "number" and value >= 0 and value <= MOST and value % 1 == 0
  end,
  positive = function(value)
    return type(value) == "number" and value > 0 and value < math.huge
  end,
  number = function(value) return type(value) == "number" end,
  text = function(value) return type(value) == "string" end,
  table = function(value) return type(value) == "table" end,
  flag = function(value) return type(value) == "boolean" end,
}

-- Returns a check for a table whose values all pass the check `kind`.
local function each(kind)
  return function(value)
    if type(value) ~= "table" then return false end
    for _, one in pairs(value) do
      if not kind(one) then return false end
    end
    return true
  end
end

-- Returns a check for a table whose fields pass the checks in `kinds`. The fields in `needed` must
-- be present.
local function fields(kinds, needed)
  return function(value)
    if type(value) ~= "table" then return false end
    for _, name in ipairs(needed or {}) do
      if value[name] == nil then return false, name end
    end
    for name, kind in pairs(kinds) do
      if value[name] ~= nil and not kind(value[name]) then return false, name end
    end
    return true
  end
end

local numbers = each(IS.number)
-- Totals of metrics (base/metrics.lua) by name: { sum, count }, or { value, count, "min" } and
-- { value, count, "max" } for extremes.
local sums = each(function(value)
  return type(value) == "table" and IS.number(value[1]) and IS.number(value[2])
    and (value[3] == nil or value[3] == "min" or value[3] == "max")
end)
local function is_inside(value) return IS.text(value) and system.is_inside_name(value) end

-- The states of Moonring's own components. A script, a custom objective and a custom schedule must
-- validate their states themselves.
local PARTS = {
  journal = fields({ tokens = IS.whole, since = numbers, metrics = sums, total_loss = IS.number,
    steps = IS.whole, skipped = IS.whole, losses = IS.whole, evaluations = each(IS.table),
    last_loss = IS.number, last_evaluation = numbers, epoch = IS.number, tracked = is_inside,
    evaluated = function(value) return IS.whole(value) or value == "end" end }),
  updates = fields({ skipped = IS.whole, in_a_row = IS.whole }, { "skipped", "in_a_row" }),
  checkpoints = fields({ stale = IS.whole, kept = each(IS.whole),
    best = fields({ metric = IS.number, step = IS.whole, folder = IS.text },
      { "metric", "step" }) }, { "stale" }),
  rounds = fields({ inner = IS.whole }, { "inner" }),
  loss_scale = fields({ scale = IS.positive, steps = IS.whole, skipped = IS.whole },
    { "scale", "steps", "skipped" }),
  micro_batches = fields({ tokens = IS.positive }, { "tokens" }),
  attention_kernels = IS.text,
  cpu_products = IS.text,
}

-- Whether a value is a JSON object: a table in which all keys are strings, not a list.
local function is_object(value)
  if type(value) ~= "table" then return false end
  for name in pairs(value) do
    if type(name) ~= "string" then return false end
  end
  return true
end

local STATE = fields({ step = IS.whole, run = IS.text, config = is_object, data = IS.text,
  examples_per_step = IS.whole, group = IS.number, parts = is_object },
  { "step", "config", "parts" })

local function refuse(path, place)
  errors.raise("DATA_LOSS", path, ": ", place, " is not what a run writes there: the checkpoint is "
    .. "damaged, or another program's")
end

--- Refuses a malformed state. Errors: DATA_LOSS with the file and the field.
---@param path string of training_state.json
---@param state any the decoded state, in which null numbers were replaced by NaN
function state_shape.check(path, state)
  local ok, name = STATE(state)
  if not ok then refuse(path, name or "all of it") end
  for part, kind in pairs(PARTS) do
    if state.parts[part] ~= nil then
      ok, name = kind(state.parts[part])
      if not ok then refuse(path, "parts." .. part .. (name and "." .. name or "")) end
    end
  end
end

--- Calls f, which restores the state of a component. If f fails for one of Moonring's own
--- components with a Lua error that has no status code, the state was malformed in a way that
--- `check` misses; the error then becomes DATA_LOSS with the file's path.
---@param path string of training_state.json
---@param name string of the component
---@param f function
---@param ... any the arguments of f
function state_shape.load(path, name, f, ...)
  local ok, why = pcall(f, ...)
  if ok then return end
  if not PARTS[name] or errors.code(why) then error(why, 0) end
  refuse(path, "parts." .. name)
end

return state_shape
