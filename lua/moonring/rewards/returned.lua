--- Checks the value that a file of rewards returns, and lists its functions. Runs in the file's own
-- Lua state (inside.lua).
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.returned_rewards
local returned = {}

--- The return value of a file of rewards is a function, a list of functions, a table of named
--- functions, or a mixture. A function receives a batch and returns a list with a number for each
--- completion. false means no score; nil does too, except at the end of the list. { each = f } is
--- called for one row at a time, and returns a number or nil.
---@alias moonring.RewardFunction fun(batch: moonring.RewardBatch): (number | false)[]
---@alias moonring.RewardEach { each: (fun(row: moonring.RewardRow): number?), name?: string }

--- A function of the file. It is in a table and called as entry[1], so that tracebacks show only
--- its line.
---@class moonring.ReturnedFunction
---@field [1] function
---@field name string
---@field is_each boolean whether it is called for single rows

local fail = errors.fail

--- Formats a value for messages.
---@param value any
---@return string
function returned.shown(value)
  if type(value) == "string" then
    return ("'%s' (a string)"):format(#value > 40 and value:sub(1, 40) .. "..." or value)
  elseif value == nil or type(value) == "boolean" or type(value) == "number" then
    return tostring(value)
  end
  return value == system.null and "json.null" or "a " .. type(value)
end

local shown = returned.shown

local KNOWN = { name = "string", each = "function", batch = "function" }

-- Converts one entry of the table that the file returned to a moonring.ReturnedFunction.
local function function_of(path, name, entry)
  if type(entry) == "function" then return { entry, name = name, is_each = false } end
  if type(entry) ~= "table" then
    fail(path, ": ", name, ": expected a function, or { each = function(row) .. end }, got ",
      shown(entry))
  end
  for key, value in pairs(entry) do
    if type(value) ~= KNOWN[key] then
      fail(path, ": ", name, ": expected name, and each or batch, a function; got ", tostring(key),
        " = ", shown(value))
    end
  end
  if (entry.each == nil) == (entry.batch == nil) then
    fail(path, ": ", name, ": expected one of each and batch, a function")
  end
  return { entry.each or entry.batch, name = entry.name or name, is_each = entry.each ~= nil }
end

--- Lists the functions: first the list part in order, then named ones by name. Errors:
--- INVALID_ARGUMENT.
---@param path string the file's path; its base name is the default name of functions
---@param value any
---@return moonring.ReturnedFunction[]
function returned.functions(path, value)
  local stem = path:match "([^/]*)%.lua$" or path
  if type(value) == "function" then return { function_of(path, stem, value) } end
  if type(value) ~= "table" or next(value) == nil then
    fail(path, ": expected a function or a table of functions, got ",
      type(value) == "table" and "an empty table" or shown(value))
  end
  if type(value.each) == "function" or type(value.batch) == "function" then
    value = { value }
  end
  local list = {}
  for i, entry in ipairs(value) do
    list[i] = function_of(path, #value == 1 and stem or stem .. "_" .. i, entry)
  end
  for name in pairs(value) do
    if type(name) == "string" then
      list[#list + 1] = function_of(path, name, value[name])
    elseif type(name) ~= "number" or not list[name] then
      fail(path, ": expected functions in a list without holes, or by name, got the key ",
        shown(name))
    end
  end
  return list
end

return returned
