--- Reads the fields of a request's JSON, with messages that say what was expected.
local errors = require "moonring.base.errors"
local null = require("moonring.native.system").null
local system = require "moonring.native.system"

---@class moonring.serve.fields
local fields = {}

--- A value, with the null of JSON as nil.
---@param value any
---@return any
function fields.value(value)
  if value == null then return nil end
  return value
end

local function shown(value)
  if type(value) == "string" then return "'" .. value .. "'" end
  return type(value) == "table" and "a list or an object" or tostring(value)
end

-- Kinds as a client's messages have them.
local NAMES = { string = "a string", number = "a number", integer = "an integer",
  boolean = "true or false", table = "a list or an object" }

--- A field of an object, or a default if it is absent or null. Errors: INVALID_ARGUMENT for another
--- type; for a required field (no default given) that is absent.
---@param object table
---@param name string
---@param kind "string" | "number" | "integer" | "boolean" | "table"
---@param default? any
---@param where? string what the object is, for messages
---@return any
function fields.get(object, name, kind, default, where)
  local value = fields.value(object[name])
  local place = (where and where .. ": " or "") .. name
  if value == nil then
    if default == nil then errors.fail(place, ": expected ", NAMES[kind], ", got none") end
    return default
  end
  local fits = type(value) == (kind == "integer" and "number" or kind)
  if kind == "integer" and fits then fits = value % 1 == 0 and math.abs(value) < 2 ^ 53 end
  if not fits then errors.fail(place, ": expected ", NAMES[kind], ", got ", shown(value)) end
  return value
end

--- Refuses fields of an object that are not known, with the nearest name.
---@param object table
---@param known string[]
---@param where string what the object is
function fields.only(object, known, where)
  local names, is_known = {}, {}
  for _, name in ipairs(known) do is_known[name] = true end
  for name, value in pairs(object) do
    if not is_known[name] and value ~= null then names[#names + 1] = tostring(name) end
  end
  table.sort(names)
  if #names == 0 then return end
  errors.fail(where, ": unknown field '", names[1], "'", system.did_you_mean(names[1], known),
    "; known: ", table.concat(known, ", "))
end

return fields
