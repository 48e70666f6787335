--- Checks tables of named options that functions in Lua accept. Native functions check theirs in
-- the same way: an unknown option is an error that suggests the nearest name.
local native = require "moonring.native.errors"
local system = require "moonring.native.system"

---@class moonring.options
local options = {}

--- Raises INVALID_ARGUMENT for a call of the function `name`, with the line of the script that made
--- it.
---@param name string
---@param ... string
function options.refuse(name, ...)
  local text, place = table.concat { ... }, system.script_place()
  if place == "" then text, name = name .. ": " .. text, "" end
  error(native.new("INVALID_ARGUMENT", text, place .. name), 0)
end

local function names_of(known)
  local names = {}
  for name in pairs(known) do names[#names + 1] = name end
  return names
end

local function check_value(name, key, value, wanted)
  if wanted == "any" or type(value) == wanted then return end
  options.refuse(name, "option '", key, "': expected a ", wanted, ", got a ", type(value))
end

--- Refuses unknown options (with the nearest name), options of the wrong type, and missing options.
--- Names that begin with an underscore are ignored: they are private fields of whoever made the
--- table.
---@param name string the function that accepts the table
---@param given? table
---@param known table<string, string> option -> type ("number", "any"); "table?" means optional
---@return table given {} if it was nil
function options.check(name, given, known)
  if given == nil then given = {} end
  if type(given) ~= "table" then
    options.refuse(name, "expected a table of options, got ", type(given))
  end
  local names = names_of(known)
  for key, value in pairs(given) do
    local wanted, optional = (known[key] or ""):match "^(%a+)(%??)$"
    if wanted then
      if value or optional == "" then check_value(name, key, value, wanted) end
    elseif type(key) ~= "string" or key:sub(1, 1) ~= "_" then
      local near = system.did_you_mean(tostring(key), names)
      options.refuse(name, "unknown option '", tostring(key), "'", near, "; known: ",
        table.concat(names, ", "))
    end
  end
  for _, key in ipairs(names) do
    local needed = known[key]:sub(-1) ~= "?"
    if needed and given[key] == nil then options.refuse(name, "option '", key, "' is missing") end
  end
  return given
end

--- Refuses a value that is not one of `choices`.
---@param name string the function that accepts the table
---@param given table
---@param key string
---@param choices string[]
function options.choice(name, given, key, choices)
  local value = tostring(given[key])
  for _, choice in ipairs(choices) do
    if value == choice then return end
  end
  local wanted, near = table.concat(choices, " or "), system.did_you_mean(value, choices)
  options.refuse(name, "option '", key, "': expected ", wanted, ", got '", value, "'", near)
end

return options
