--- What training_state.json may say: a checkpoint may be somebody else's, or damaged. Numbers are
-- numbers, steps are whole, tables are tables; so what reads them (saved_state.lua) need not look.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.state_shape
local state_shape = {}

local MOST = 2 ^ 53

local IS = {
  whole = function(value) -- false of NaN too
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

-- Each value of a table is of a kind.
local function each(kind)
  return function(value)
    if type(value) ~= "table" then return false end
    for _, one in pairs(value) do
      if not kind(one) then return false end
    end
    return true
  end
end

-- A table's fields by name; those that `needed` names must be there.
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
-- metrics.lua: { sum, count } by name, or of an extreme { value, count, "min" }.
local sums = each(function(value)
  return type(value) == "table" and IS.number(value[1]) and IS.number(value[2])
    and (value[3] == nil or value[3] == "min" or value[3] == "max")
end)
local function is_inside(value) return IS.text(value) and system.is_inside_name(value) end

-- The parts that are Moonring's own. Those of a script, of an objective and of an own schedule are
-- what their state() gave, and theirs to check.
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

-- An object's names are texts: a list in its place is none.
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

--- Refuses a state of another shape. Errors: DATA_LOSS with the file and the place in it.
---@param path string of training_state.json
---@param state any as it was decoded, null in numbers made NaN
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

--- Gives a part its state. What fails in one of Moonring's own without a status code is Lua's own
--- complaint about a value that `check` does not know: the file is named in its place.
---@param path string of training_state.json
---@param name string the part's
---@param f function
---@param ... any what f takes
function state_shape.load(path, name, f, ...)
  local ok, why = pcall(f, ...)
  if ok then return end
  if not PARTS[name] or errors.code(why) then error(why, 0) end
  refuse(path, "parts." .. name)
end

return state_shape
