--- What runs in the Lua state of a file of rewards (lua/own_state.h): reads the file, and calls its
-- functions. The state that asks sees plain values alone: a function's name, its numbers, what of
-- them is wrong.
--
-- Globals of the file: Lua's pure libraries, json (encode, decode, null), `require` for Lua files
-- of its own folder, print to the run's log; without --sandbox io and os too. They are interpreted:
-- compiled code would count no instructions.
local returned = require "moonring.rewards.returned"
local rewards = require "moonring.native.rewards"
local sandbox = require "moonring.sandbox"
local system = require "moonring.native.system"

---@class moonring.rewards_inside
local inside = {}

local shown = returned.shown
local jit = package.loaded.jit -- nil where the state is confined

---@class moonring.RewardBatch
--- text of each row's prompt, as the model was given it
---@field prompts string[]
--- of a conversation its messages, { role, content } each; false for a prompt that is a text
---@field messages (table[] | false)[]
---@field completions string[] text
---@field prompt_ids integer[][]
---@field completion_ids integer[][]
---@field stopped boolean[] whether a stop token ended it, not the limit on its length
---@field columns table<string, any[]> the rows' other columns, each as a list; batch[name] is the
---   same where `name` is none of the names above
---@field rows integer[] places of the rows in the data set, from 0

---@class moonring.RewardRow one row of a batch
---@field prompt string
---@field messages table[] | false
---@field completion string
---@field prompt_ids integer[]
---@field completion_ids integer[]
---@field stopped boolean
---@field columns table<string, any> row[name] is the same where `name` is none of these
---@field row integer its place in the data set, from 0

-- The file's; and the row that is looked at, for who asks once a call has failed.
---@type moonring.ReturnedFunction[]
local functions, current = {}, 0

-- The globals
-- ------------------------------------------------------------------------------------------

local function new_globals(folder, is_confined)
  local globals = sandbox.pure()
  globals.json = { encode = system.json_encode, decode = system.json_decode, null = system.null }
  if not is_confined then globals.io, globals.os = io, os end
  local loaded = {} -- by name; true while it is being read
  function globals.require(name)
    if type(name) ~= "string" or not ("." .. name):find "^[%.%w_%-]+$"
      or ("." .. name .. "."):find("..", 1, true) then
      error(("require: wanted the name of a Lua file in %s, got %s"):format(folder,
        shown(name)), 2)
    end
    if loaded[name] == nil then
      loaded[name] = true
      local path = folder .. "/" .. name:gsub("%.", "/") .. ".lua"
      local chunk, why = load(rewards.read(path), "@" .. path, "t", globals)
      if not chunk then error(why, 0) end
      local value = chunk(name)
      if value ~= nil then loaded[name] = value end
    end
    return loaded[name]
  end
  return is_confined and sandbox.explain(globals) or globals
end

-- The file
-- ------------------------------------------------------------------------------------------

--- Runs the file.
---@param text string
---@param path string of the file, for messages
---@param folder string where `require` looks
---@return string[] names
function inside.load(text, path, folder)
  local is_confined = sandbox.is_confined()
  local chunk, why = load(text, "@" .. path, "t", new_globals(folder, is_confined))
  if not chunk then error("INVALID_ARGUMENT: " .. why, 0) end
  functions = returned.functions(path, chunk())
  local names = {}
  for i, each in ipairs(functions) do names[i] = each.name end
  return names
end

-- The numbers
-- ------------------------------------------------------------------------------------------

-- What is wrong with a function's value for a row; nil where nothing is.
local function wrong(value)
  if value == nil or value == false then return nil end
  if type(value) ~= "number" then return shown(value) end
  if value ~= value then return "nan" end
  if value == math.huge or value == -math.huge then return tostring(value) end
end

-- A batch under the names that it has for a function.
local function with_columns(batch)
  batch.columns = batch.columns or {}
  for name, list in pairs(batch.columns) do
    if batch[name] == nil then batch[name] = list end
  end
  return batch
end

local FIELDS = { prompts = "prompt", messages = "messages", completions = "completion",
  prompt_ids = "prompt_ids", completion_ids = "completion_ids", stopped = "stopped",
  rows = "row" }

local function row_of(batch, i)
  local row = { columns = {} }
  for list, name in pairs(FIELDS) do
    if batch[list] then row[name] = batch[list][i] end
  end
  for name, list in pairs(batch.columns or {}) do
    row.columns[name] = list[i]
    if row[name] == nil then row[name] = list[i] end
  end
  return row
end

local function call_each(entry, batch, count)
  local values = {}
  for i = 1, count do
    current = i
    local value = entry[1](row_of(batch, i))
    local got = wrong(value)
    if got then return nil, { row = i, got = got } end
    values[i] = value or false
  end
  return values
end

local function call_batch(entry, batch, count)
  local list = entry[1](with_columns(batch))
  if type(list) ~= "table" then return nil, { row = 0, got = shown(list) } end
  local last = 0
  for key in next, list do
    local is_place = type(key) == "number" and key == math.floor(key) and key >= 1
    if not is_place and key ~= "n" then
      return nil, { row = 0, got = "a table with the key " .. shown(key) }
    end
    if is_place then last = math.max(last, key) end
  end
  local said = rawget(list, "n")
  if last < count and type(said) == "number" then last = math.max(last, said) end
  if last ~= count then return nil, { row = 0, values = last } end
  local values = {}
  for i = 1, count do
    local value = rawget(list, i)
    local got = wrong(value)
    if got then return nil, { row = i, got = got } end
    values[i] = value or false
  end
  return values
end

--- Calls a function of the file with a batch.
---@param index integer
---@param batch moonring.RewardBatch
---@param count integer of completions
---@return (number | false)[]? values one a completion; false: nothing to say of it
---@return { row: integer, got?: string, values?: integer }? problem what is wrong with them: of a
---   row, or of all (row 0); with how many values came
function inside.call(index, batch, count)
  current = 0
  local entry = functions[index]
  return (entry.is_each and call_each or call_batch)(entry, batch, count)
end

--- The row of the batch that a function with `each` was called for last; 0 where none was.
---@return integer
function inside.row() return current end

--- Whether code is compiled here: never. nil where the state is confined, which has no `jit`.
---@return boolean?
function inside.compiles()
  if not jit then return nil end
  return (jit.status())
end

return inside
