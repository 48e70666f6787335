--- Generates the LuaCATS type moonring.Configuration from the table of keys, for editors. `text`
-- returns the contents of lua/types/configuration.lua:
--   moonring docs/configuration_types.lua > lua/types/configuration.lua
local keys = require "moonring.config.keys"
local system = require "moonring.native.system"

---@class moonring.key_types
local key_types = {}

local TYPES = { int = "integer", float = "number", bool = "boolean", string = "string",
  list = "string[]", any = "table | string" }
local WIDTH = 96

local HEAD = [[
---@meta moonring.configuration

--- A checked configuration: a value for every key, nil if it is null. Keys that have no effect or
--- must keep their default are not listed here: `moonring help train` lists all keys.
---@class moonring.Configuration
---@field path? string the file that it was read from
---@field given table<string, any> values as given by the file and the words, unchecked
---@field notes string[] messages about skipped keys, and keys without effect
---@field places table<string, string> where the file sets a key: "train.yaml:3: "
]]

--- Wraps a text into lines of comment.
---@param text string
---@return string
function key_types.comment(text)
  local lines, line = {}, ""
  for word in text:gmatch "%S+" do
    if line ~= "" and #line + 1 + #word > WIDTH then
      lines[#lines + 1], line = line, word
    else
      line = line == "" and word or line .. " " .. word
    end
  end
  lines[#lines + 1] = line
  for i, each in ipairs(lines) do lines[i] = "--- " .. each end
  return table.concat(lines, "\n")
end

local function type_of(row)
  if not row.choices then return TYPES[row[2]] end
  return '"' .. table.concat(row.choices, '" | "') .. '"' .. (row.own_file and " | string" or "")
end

local function field(row)
  local optional, words = row[3] == system.null, row[4]
  if not optional then words = words .. "; default " .. tostring(row[3]) end
  local name, kind = row[1] .. (optional and "?" or ""), type_of(row)
  local line = ("---@field %s %s"):format(name, kind)
  if #line > 100 then line = ("---@field %s %s"):format(name, TYPES[row[2]]) end
  return key_types.comment(words) .. "\n" .. line
end

--- The contents of the whole file.
---@return string
function key_types.text()
  local lines = {}
  for row in keys.rows() do
    if keys.acts(row) then lines[#lines + 1] = field(row) end
  end
  return HEAD .. table.concat(lines, "\n") .. "\n"
end

return key_types
