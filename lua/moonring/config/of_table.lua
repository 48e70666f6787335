--- A configuration from a table of keys and values, as a script writes it down.
local config = require "moonring.config"
local system = require "moonring.native.system"

-- A value as key=value has it on the command line.
local function text_of(value)
  if value == system.null then return "null" end
  return type(value) == "table" and system.json_encode(value) or tostring(value)
end

--- Checks keys and values as those of a file are checked. Errors: INVALID_ARGUMENT, naming the key.
---@param given table<string, any>
---@return moonring.Configuration
return function(given)
  local words = {}
  for name, value in pairs(given) do words[#words + 1] = name .. "=" .. text_of(value) end
  table.sort(words)
  return config.load(nil, words)
end
