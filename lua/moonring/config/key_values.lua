--- Parses and checks the value of one key by its row.
local command_words = require "moonring.base.command_words"
local errors = require "moonring.base.errors"
local keys = require "moonring.config.keys"
local custom_pieces = require "moonring.choices.custom_pieces"
local secrets = require "moonring.config.secrets"
local system = require "moonring.native.system"

local fail = errors.fail

---@class moonring.key_values
local key_values = {}

--- A row of the table of keys.
---@class moonring.KeyRow one key: { name, type, default, meaning }; details are in keys/init.lua
---@field [1] string the key
---@field [2] "int" | "float" | "bool" | "string" | "list" | "any"
---@field [3] any the default; `moonring.null`: the key may be absent
---@field [4] string its meaning, shown by help
---@field choices? any[] accepted values
---@field others? any[] known values that are not supported yet
---@field spellings? table<string, string> other spelling -> choice or value
---@field only? string only the default is accepted, for this reason
---@field ignored? string any value is accepted without effect, for this reason; a note states it
---@field of? string | string[] the key, or key and values, that this key needs to have an effect
---@field least? number inclusive lower bound
---@field most? number inclusive upper bound
---@field below? number exclusive upper bound, instead of `most`
---@field above? number exclusive lower bound, instead of `least`
---@field nullable? boolean null is accepted in addition to the default
---@field stages? string[] stages that have the key
---@field finetuning? string | string[] finetuning types that have the key
---@field own_file? boolean the path of a Lua file is accepted too (custom_pieces.lua)
---@field mark? fun(c: moonring.Configuration): string represents the value in comparisons
---@field secret? boolean its value is never written to files or logs
---@field part_of? string the key that this key configures: only the note of that key is shown
---@field machine? boolean may differ between machines of a run
--- `resume`: what happens if a run resumes and its value differs from the checkpoint's: nothing
--- ("free"), a note ("told"), or an error ("refused", the default).
---@field resume? "free" | "told" | "refused"

local later = "not supported yet"

local rows, names = {}, {}

--- Adds a row to the known keys.
---@param row moonring.KeyRow
function key_values.add(row)
  rows[row[1]] = row
  names[#names + 1] = row[1]
end

for row in keys.rows() do key_values.add(row) end
for alias in pairs(keys.aliases) do names[#names + 1] = alias end

--- All known keys, by name.
---@return table<string, moonring.KeyRow>
function key_values.rows() return rows end

--- The type of a key or alias; nil if it is unknown.
---@param name string
---@return string?
function key_values.kind(name)
  local row = rows[keys.aliases[name] or name]
  return row and row[2]
end

--- A suggestion for an unknown key: "; did you mean NAME?", or "" if none is similar.
---@param name string
---@return string
function key_values.nearest(name) return system.did_you_mean(name, names) end

--- Formats a value for a message.
---@param value any
---@return string
function key_values.show(value)
  if value == system.null then return "null" end
  if type(value) == "table" then return system.json_encode(value) end
  return tostring(value)
end

-- Parses a number in YAML's syntax: 32_768, 1e3, 0x10. It may be quoted or from the command line.
local function number_of(value)
  if type(value) == "string" then
    value = value:match "^%s*([%w.+:_-]+)%s*$"
    local ok, read = pcall(system.yaml_decode, value or "")
    value = ok and read
  end
  if type(value) ~= "number" or value ~= value or math.abs(value) == math.huge then return nil end
  return value
end

local PARSE = {
  string = function(value) return type(value) ~= "table" and tostring(value) or nil end,
  any = function(value) return value end,
  float = number_of,
  int = function(value)
    local number = number_of(value)
    return number and number == math.floor(number) and number or nil
  end,
  bool = function(value)
    if type(value) == "boolean" then return value end
    return command_words.truth(tostring(value))
  end,
  list = function(value)
    local items = {}
    if type(value) == "table" then
      for key, item in pairs(value) do
        if type(key) ~= "number" or item == system.null or type(item) == "table" then return nil end
        items[key] = tostring(item) -- numbers become strings
      end
      return items
    end
    for item in tostring(value):gmatch "[^,]+" do items[#items + 1] = item:match "^%s*(.-)%s*$" end
    return items
  end,
}

local function contains(list, value)
  for _, each in ipairs(list or {}) do
    if each == value then return true end
  end
  return false
end

--- Whether two values of a key are equal; a list of one item equals the item.
---@param a any
---@param b any
---@return boolean
function key_values.same(a, b)
  if a == b or key_values.show(a) == key_values.show(b) then return true end
  return type(a) == "table" and #a == 1 and a[1] == b
end

-- The accepted value that a word stands for: the one that `spellings` gives, or one that differs
-- only in case (Cosine).
local function chosen(row, word)
  local lower = tostring(word):lower()
  local spelled = row.spellings and row.spellings[lower]
  if spelled or contains(row.choices, word) then return spelled or word end
  for _, choice in ipairs(row.choices or {}) do
    if tostring(choice):lower() == lower then return choice end
  end
  return word
end

-- Formats the reason of a refusal, in parentheses; "" if the value is only not supported yet.
local function because(reason) return reason ~= later and " (" .. reason .. ")" or "" end

--- Checks and returns the value of a known key. `place` is put before error messages:
--- "train.yaml:3: ".
---@param place string
---@param name string
---@param value any
---@return any
function key_values.check(place, name, value)
  local row = rows[name]
  local kind, default = row[2], row[3]
  if value == system.null then
    if row.nullable then return value end
    if default ~= system.null and not row.ignored then
      fail(place, name, ": expected a value of type ", kind, ", got null")
    end
    return default
  end
  local parsed, shown = PARSE[kind](value), secrets.shown(name, key_values.show(value))
  local is_empty = parsed == "" or type(parsed) == "table" and next(parsed) == nil
  if is_empty and default == system.null and kind ~= "string" then return default end
  if parsed == nil then fail(place, name, ": expected ", kind, ", got '", shown, "'") end
  if row.only and not key_values.same(parsed, default) and not (default == system.null
    and parsed == false) then
    fail(place, later, ": ", name, ": ", shown, because(row.only))
  end
  if row.choices or row.spellings then parsed = chosen(row, parsed) end
  if row.own_file and custom_pieces.is_file(parsed) then return parsed end
  if row.choices and not contains(row.choices, parsed) then
    shown = secrets.shown(name, key_values.show(parsed))
    if contains(row.others, parsed) then
      fail(place, later, ": ", name, ": ", shown, "; expected ", table.concat(row.choices, " | "))
    end
    fail(place, name, ": expected ", table.concat(row.choices, " | "),
      row.own_file and " | a .lua file" or "", ", got '", shown, "'",
      system.did_you_mean(shown, row.choices))
  end
  if row.own_file and not row.choices then
    fail(place, name, ": expected the path of a .lua file, got '", shown, "'")
  end
  return parsed
end

return key_values
