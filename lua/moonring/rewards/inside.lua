--- Code in the isolated Lua state of a file of rewards (lua/vm/isolated_state.h). It loads the file
-- and calls its functions. Only plain values pass between this state and the run: names,
-- numbers, and descriptions of problems.
--
-- The file's globals: Lua's pure libraries; json (encode, decode, null); `require` for Lua files in
-- its folder; print, which writes to the run's log; without --sandbox also io and os. The JIT
-- compiler is off, because instructions of compiled code are not counted.
local errors = require "moonring.base.errors"
local returned = require "moonring.rewards.returned"
local rewards = require "moonring.native.rewards"
local sandbox = require "moonring.sandbox"
local system = require "moonring.native.system"

---@class moonring.rewards_inside
local inside = {}

local shown = returned.shown
local jit = package.loaded.jit -- nil if the state is confined

--- The batch that a reward function receives: lists with one item per completion.
---@class moonring.RewardBatch
--- `prompts`: each row's prompt as text, in the form that the model received.
---@field prompts string[]
--- `messages`: if a row is a conversation, its messages, { role, content } each; false if its
--- prompt is plain text.
---@field messages (table[] | false)[]
---@field completions string[] as text
---@field prompt_ids integer[][]
---@field completion_ids integer[][]
--- `completion_masks`, with the hook `continue`: for each id 1 if it was sampled, 0 if it was
--- given.
---@field completion_masks? integer[][]
---@field stopped boolean[] whether the completion ended with a stop token, not by the length limit
--- `columns`: the rows' other columns, as lists. They can also be read as batch[name], unless
--- `name` is one of the fields above.
---@field columns table<string, any[]>
---@field rows integer[] indices of the rows in the data set, from 0

---@class moonring.RewardRow one row of a batch
---@field prompt string
---@field messages table[] | false
---@field completion string
---@field prompt_ids integer[]
---@field completion_ids integer[]
---@field completion_mask? integer[]
---@field stopped boolean
---@field columns table<string, any> also available as row[name], unless `name` is one of these
---@field row integer index in the data set, from 0

-- The file's functions, and the current row, which is reported if a call fails.
---@type moonring.ReturnedFunction[]
local functions, current = {}, 0

-- The globals
-- ------------------------------------------------------------------------------------------

local function new_globals(folder, is_confined)
  local globals = sandbox.pure()
  globals.json = { encode = system.json_encode, decode = system.json_decode, null = system.null }
  if not is_confined then globals.io, globals.os = io, os end
  local loaded = {} -- by name; true while a file is being loaded
  function globals.require(name)
    if type(name) ~= "string" or not ("." .. name):find "^[%.%w_%-]+$"
      or ("." .. name .. "."):find("..", 1, true) then
      error(("require: expected the name of a Lua file in %s, got %s"):format(folder,
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

--- Loads and runs the file.
---@param text string
---@param path string path of the file, for messages
---@param folder string the folder for `require`
---@return string[] names
function inside.load(text, path, folder)
  local is_confined = sandbox.is_confined()
  local chunk, why = load(text, "@" .. path, "t", new_globals(folder, is_confined))
  if not chunk then errors.fail(why) end
  functions = returned.functions(path, chunk())
  local names = {}
  for i, each in ipairs(functions) do names[i] = each.name end
  return names
end

-- The numbers
-- ------------------------------------------------------------------------------------------

-- Describes an invalid score; nil if the score is valid.
local function wrong(value)
  if value == nil or value == false then return nil end
  if type(value) ~= "number" then return shown(value) end
  if value ~= value then return "nan" end
  if value == math.huge or value == -math.huge then return tostring(value) end
end

-- Makes the columns direct fields of a batch.
local function with_columns(batch)
  batch.columns = batch.columns or {}
  for name, list in pairs(batch.columns) do
    if batch[name] == nil then batch[name] = list end
  end
  return batch
end

local FIELDS = { prompts = "prompt", messages = "messages", completions = "completion",
  prompt_ids = "prompt_ids", completion_ids = "completion_ids",
  completion_masks = "completion_mask", stopped = "stopped",
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

--- Calls a function of the file for a batch. Returns the values, or a description of an invalid
--- result: `row` is its row, or 0 if the whole result is invalid; `values` is then the number of
--- values.
---@param index integer
---@param batch moonring.RewardBatch
---@param count integer number of completions
---@return (number | false)[]? values one per completion; false: no score
---@return { row: integer, got?: string, values?: integer }? problem
function inside.call(index, batch, count)
  current = 0
  local entry = functions[index]
  return (entry.is_each and call_each or call_batch)(entry, batch, count)
end

--- The row that a function with `each` was last called for; 0 if there was none.
---@return integer
function inside.row() return current end

--- Whether the JIT compiler is on (it must be off). nil if the state is confined and so has no
--- `jit`.
---@return boolean?
function inside.compiles()
  if not jit then return nil end
  return (jit.status())
end

return inside
