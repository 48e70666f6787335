--- Custom data sources, which return rows one by one. A script may define one as a table:
--
--   moonring.data.source {
--     next = function() return row end,        -- nil at its end
--     state = function() return { at = at } end, -- optional: the position
--     load_state = function(state) at = state.at end,
--   }
--
-- A script may also define one as a function that returns rows, or as a coroutine that yields rows.
-- To resume, these two are read again from the beginning: their state is the number of rows read.
-- lua/types/source.lua describes the fields of rows (moonring.SourceRow).
local errors = require "moonring.base.errors"
local options = require "moonring.base.options"
local system = require "moonring.native.system"

---@class moonring.source
local source = {}

--- A custom data source, as a script defines it.
---@class moonring.SourceTable
---@field next fun(): moonring.SourceRow? the next row; nil at the end
---@field state? fun(): any the position, of numbers, strings, booleans, and tables of these
---@field load_state? fun(state: any) moves to a position, from anywhere
---@field name? string name of the source in messages; default "data source"
--- `formatting`: how rows are interpreted, as in dataset_info.json; absent: detected from each row.
---@field formatting? string
---@field columns? table<string, string>
---@field tags? table<string, string>

---@class moonring.Source
---@field name string
---@field next fun(): moonring.SourceRow?
---@field description? table formatting, columns, tags
---@field remake? fun(): moonring.Source creates the same source at its beginning
local Source = {}
Source.__index = Source

local OPTIONS = { next = "function", state = "function?", load_state = "function?",
  name = "string?", formatting = "string?", columns = "table?", tags = "table?" }

-- Makes a function that returns the rows that a coroutine yields. The coroutine's return value is
-- ignored.
local function of_coroutine(thread)
  return function()
    if coroutine.status(thread) == "dead" then return nil end
    local ok, row = coroutine.resume(thread)
    if not ok then error(row, 0) end
    if coroutine.status(thread) == "dead" then return nil end
    return row
  end
end

--- Creates a source from a table, a function or a coroutine. Errors: INVALID_ARGUMENT.
---@param given moonring.SourceTable | thread | (fun(): moonring.SourceRow?) | moonring.Source
---@return moonring.Source
function source.new(given)
  if getmetatable(given) == Source then return given end
  if type(given) == "thread" then given = { next = of_coroutine(given) } end
  if type(given) == "function" then given = { next = given } end
  options.check("data.source", given, OPTIONS)
  if (given.state == nil) ~= (given.load_state == nil) then
    options.refuse("data.source", "expected both 'state' and 'load_state', or neither: without ",
      "them it resumes by replay")
  end
  local described = given.formatting or given.columns or given.tags
  return setmetatable({ name = given.name or "data source", next = given.next,
    own_state = given.state, own_load = given.load_state, description = described and {
      formatting = given.formatting, columns = given.columns, tags = given.tags } }, Source)
end

--- Whether the source saves its own state. If not, it resumes by reading all rows again.
---@return boolean
function Source:has_state() return self.own_state ~= nil end

--- The next row. `number` is its index in the pass, for error messages.
---@param number integer
---@return moonring.SourceRow?
function Source:take(number)
  local ok, row = pcall(self.next)
  if not ok then errors.prefix(row, self.name, " (row ", number, "): next(): ") end
  if row == nil or type(row) == "table" or type(row) == "string" then return row end
  errors.fail(self.name, " (row ", number, "): next(): expected a row, a table or a text, or nil ",
    "at the end, got a ", type(row))
end

--- Adds a row to a feed. Error messages name the row.
---@param feed moonring.Feed
---@param row moonring.SourceRow
function Source:hand_to(feed, row)
  local ok, why = pcall(feed.add, feed, row)
  if ok then return end
  local words = errors.words(why)
  if words:find "^JSON: " then
    errors.fail(self.name, " (row ", feed:rows() + 1, "): expected texts, numbers, booleans and ",
      "tables of these: ", words:sub(7))
  end
  error(why, 0)
end

--- The position as JSON text; nil if the source has no state of its own. Errors: INVALID_ARGUMENT
--- if the state cannot be converted to JSON.
---@return string?
function Source:place()
  if not self.own_state then return nil end
  local ok, state = pcall(self.own_state)
  if not ok then errors.prefix(state, self.name, ": state(): ") end
  local done, text = pcall(system.json_encode, { state = state })
  if done then return text end
  errors.fail(self.name, ": state(): expected numbers, texts, booleans and tables of these: ",
    (errors.words(text):gsub("^JSON: ", "")))
end

--- Moves to a position.
---@param place string from place()
function Source:go_to(place)
  local ok, why = pcall(self.own_load, system.json_decode(place, "state").state)
  if not ok then errors.prefix(why, self.name, ": load_state(): ") end
end

--- Restarts the source from the beginning: with `place`, its saved first state, otherwise with
--- `remake`. Returns nil if the source cannot be restarted.
---@param place? string
---@return moonring.Source? at_beginning this source, or a new one
function Source:restarted(place)
  if place then
    self:go_to(place)
    return self
  end
  return self.remake and self.remake() or nil
end

return source
