--- Runs a Lua file up to its call of run.open, to learn whether it is a training script or returns
-- an objective.
local errors = require "moonring.base.errors"
local of_table = require "moonring.config.of_table"
local run = require "moonring.run"
local system = require "moonring.native.system"

---@class moonring.check_capture
local capture = {}

---@class moonring.CapturedFile
---@field kind "objective" | "script"
---@field value? any what the file returned
---@field given? table<string, any> keys and values that the script passed to run.open
---@field has_own_data? boolean
---@field objective? any what the script passed to run.open

--- Loads a Lua file as the host does: `arg` has the words.
---@param path string
---@param words string[]
---@return function
function capture.load(path, words)
  arg = { [0] = path, unpack(words) } -- luacheck: globals arg
  local chunk, why = loadstring(system.read(path), "@" .. path)
  if not chunk then errors.fail(why) end
  return chunk
end

--- Runs a Lua file. A script stops where it opens its run.
---@param path string
---@param words string[]
---@return moonring.CapturedFile
function capture.read(path, words)
  local found, stop = { kind = "objective" }, {}
  local open = run.open
  function run.open(given, own)
    local c = given.places and given or of_table(given)
    found = { kind = "script", given = c.given, has_own_data = (own or {}).data ~= nil
      or c.data_source ~= nil, objective = (own or {}).objective }
    error(stop, 0)
  end
  local ok, value = pcall(capture.load(path, words), unpack(words))
  run.open = open
  if found.kind == "script" then return found end
  if not ok then error(value, 0) end
  found.value = value
  return found
end

return capture
