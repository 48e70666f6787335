--- Command-line options of a script, written as key=value or --key=value:
--
--   local opt = moonring.flags { model = moonring.required, sp = 4 }
--
-- A value must have the type of its key's default. Unknown keys and missing required keys are
-- errors.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.flags
---@field required table as a default, it says that the key must be given
local flags = {}

local required = setmetatable({}, { __tostring = function() return "(required)" end })
flags.required = required

local function convert(name, text, default)
  if type(default) == "number" then
    return tonumber(text)
      or errors.fail(name, ": expected a number, got '", text, "'")
  end
  if type(default) == "boolean" then
    if text == "true" or text == "false" then return text == "true" end
    errors.fail(name, ": expected true or false, got '", text, "'")
  end
  return text
end

--- Reads key=value words. A value is converted to the type of its default.
---@param defaults table<string, any>
---@param words? string[] by default, the script's arguments (`arg`)
---@return table<string, any>
function flags.read(defaults, words)
  local values, names = {}, {}
  for name, default in pairs(defaults) do
    values[name], names[#names + 1] = default, name
  end
  table.sort(names)
  for _, word in ipairs(words or arg) do
    local name, text = word:match "^%-?%-?([%w_]+)=(.*)$"
    if not name then
      errors.fail("expected key=value, got '", word, "'; keys: ",
        table.concat(names, ", "))
    end
    if defaults[name] == nil then
      errors.fail("unknown key '", name, "'", system.did_you_mean(name, names),
        "; keys: ", table.concat(names, ", "))
    end
    values[name] = convert(name, text, defaults[name])
  end
  local missing = {}
  for _, name in ipairs(names) do
    if values[name] == required then missing[#missing + 1] = name .. "=" end
  end
  if #missing > 0 then
    errors.fail(table.concat(missing, " and "), #missing > 1 and " are" or " is",
      " missing; keys: ", table.concat(names, ", "))
  end
  return values
end

return flags
