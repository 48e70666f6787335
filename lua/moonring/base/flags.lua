--- Command-line options of a script, written as key=value, --key=value or --key value:
--
--   local opt = moonring.flags { model = moonring.required, sp = 4 }
--
-- A value must have the type of its key's default. Unknown keys and missing required keys are
-- errors.
local command_words = require "moonring.base.command_words"
local errors = require "moonring.base.errors"
local options = require "moonring.base.options"
local system = require "moonring.native.system"

---@class moonring.flags
---@field required table as a default, it says that the key must be given
local flags = {}

local required = setmetatable({}, { __tostring = function() return "(required)" end })
flags.required = required

local function convert(word, default)
  local text = word.text
  if type(default) == "number" and tonumber(text) then return tonumber(text) end
  if type(default) == "boolean" then return command_words.truth(text) end
  if type(default) ~= "number" then return text end
end

-- The error of a word; nil if its key is known and has a value of the default's type. Also returns
-- whether the list of keys explains it.
local function wrong(word, default, names)
  local name = word.name
  if not name then return "expected key=value, got '" .. word.shown .. "'", true end
  if default == nil or word.inner ~= "" then
    return "unknown key '" .. name .. word.inner .. "'" .. system.did_you_mean(name, names), true
  end
  if not word.text then return word.shown .. ": expected a value" end
  if convert(word, default) ~= nil then return nil end
  return ("%s: expected %s, got '%s'"):format(name,
    type(default) == "number" and "a number" or "true or false", word.text)
end

-- The error of required keys without a value; nil if there is none.
local function missing(values, names)
  local absent = {}
  for _, name in ipairs(names) do
    if values[name] == required then absent[#absent + 1] = name .. "=" end
  end
  if #absent == 0 then return nil end
  return table.concat(absent, " and ") .. (#absent > 1 and " are" or " is") .. " missing"
end

--- Reads words that are keys and values. A value is converted to the type of its default.
---@param defaults table<string, any>
---@param words? string[] by default, the script's arguments (`arg`)
---@return table<string, any>
function flags.read(defaults, words)
  if type(defaults) ~= "table" then
    options.refuse("flags", "expected a table of options and their defaults, got a ",
      type(defaults))
  end
  local values, names, problems, lists = {}, {}, {}, false
  for name, default in pairs(defaults) do
    values[name], names[#names + 1] = default, name
  end
  local function kind_of(name)
    local kind = type(defaults[name])
    return kind == "boolean" and "bool" or kind ~= "nil" and kind or nil
  end
  for _, word in ipairs(command_words.read(words or arg, kind_of)) do
    local default = word.name and defaults[word.name]
    local problem, lists_keys = wrong(word, default, names)
    problems[#problems + 1], lists = problem, lists or lists_keys
    if not problem then values[word.name] = convert(word, default) end
  end
  local absent = #problems == 0 and missing(values, names)
  if absent then problems[1], lists = absent, true end
  if #problems > 0 then
    errors.fail(table.concat(problems, "; "), lists and "; keys: " .. table.concat(names, ", ")
      or "")
  end
  return values
end

return flags
