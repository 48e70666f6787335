--- Creates a configuration from a Lua table of keys and values.
local config = require "moonring.config"
local system = require "moonring.native.system"

-- A value as command-line text.
local function text_of(value)
  if value == system.null then return "null" end
  return type(value) == "table" and system.json_encode(value) or tostring(value)
end

--- Checks keys and values like those of a file. Errors: INVALID_ARGUMENT, with the key.
---@param given table<string, any>
---@return moonring.Configuration
return function(given)
  local words = {}
  for name, value in pairs(given) do words[#words + 1] = name .. "=" .. text_of(value) end
  return config.load(nil, words)
end
