--- The value of one key: read by its type, and checked by its row in keys.
local errors = require "moonring.base.errors"
local keys = require "moonring.config.keys"
local own_pieces = require "moonring.choices.custom_pieces"
local secrets = require "moonring.config.secrets"
local system = require "moonring.native.system"

local fail = errors.fail

---@class moonring.key_values
local key_values = {}

---@class moonring.KeyRow one key: { name, type, default, meaning }
---@field [1] string the key
---@field [2] "int" | "float" | "bool" | "string" | "list" | "any"
---@field [3] any the default; `moonring.null`: may be left out
---@field [4] string its meaning, for help
---@field choices? any[] the values that are accepted
---@field others? any[] values that are known and not supported yet
---@field spellings? table<string, string> other words for choices, or for what the key takes
---@field only? string the default alone is accepted, for this reason
---@field ignored? string any value is accepted and has no effect, for this reason; a line says so
---@field of? string | string[] the key, or key and values, beside which alone it acts
---@field least? number the lowest number that is accepted
---@field most? number the highest
---@field below? number in place of `most`: what every number that is accepted is below
---@field above? number in place of `least`: what every number that is accepted is above
---@field nullable? boolean null is a value beside the default
---@field stages? string[] where alone it acts
---@field finetuning? string | string[] kinds of fine-tuning where alone it acts
---@field own_file? boolean the path of a Lua file is accepted too: own_pieces.lua
---@field mark? fun(c: moonring.Configuration): string stands for the value in comparisons
---@field secret? boolean its value is written nowhere
---@field part_of? string a key without effect whose line is enough where both are given
---@field machine? boolean machines of a run may differ in it
--- what becomes of a run that goes on from a checkpoint under another value; refused where absent
---@field resume? "free" | "told" | "refused"

local later = "not supported yet"

local rows, names = {}, {}

--- Adds a key to those that are known.
---@param row moonring.KeyRow
function key_values.add(row)
  rows[row[1]] = row
  names[#names + 1] = row[1]
end

for row in keys.rows() do key_values.add(row) end
for alias in pairs(keys.aliases) do names[#names + 1] = alias end

--- All keys that are known, by name.
---@return table<string, moonring.KeyRow>
function key_values.rows() return rows end

--- The nearest key to a word that is none: "; did you mean NAME?" or "".
---@param name string
---@return string
function key_values.nearest(name) return system.did_you_mean(name, names) end

--- A value as a message shows it.
---@param value any
---@return string
function key_values.show(value)
  if value == system.null then return "null" end
  if type(value) == "table" then return system.json_encode(value) end
  return tostring(value)
end

-- A number as YAML reads it, quoted or on the command line too: 32_768, 1e3, 0x10.
local function number_of(value)
  if type(value) == "string" then
    value = value:match "^%s*([%w.+:_-]+)%s*$"
    local ok, read = pcall(system.yaml_decode, value or "")
    value = ok and read
  end
  if type(value) ~= "number" or value ~= value or math.abs(value) == math.huge then return nil end
  return value
end

-- Words of YAML 1.1, of Python's and of HfArgumentParser's string_to_bool.
local TRUTH = {}
for _, word in ipairs { "true", "yes", "on", "y", "t", "1" } do TRUTH[word] = true end
for _, word in ipairs { "false", "no", "off", "n", "f", "0" } do TRUTH[word] = false end

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
    return TRUTH[tostring(value):lower():match "^%s*(.-)%s*$"]
  end,
  list = function(value)
    local items = {}
    if type(value) == "table" then
      for key, item in pairs(value) do
        if type(key) ~= "number" or item == system.null or type(item) == "table" then return nil end
        items[key] = tostring(item) -- [1, 2] are names too
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

--- Whether two values of a key are the same: a list of one is its item.
---@param a any
---@param b any
---@return boolean
function key_values.same(a, b)
  if a == b or key_values.show(a) == key_values.show(b) then return true end
  return type(a) == "table" and #a == 1 and a[1] == b
end

-- A word for one of the choices: another spelling, or its own in other letters (Cosine).
local function chosen(row, word)
  local lower = tostring(word):lower()
  local spelled = row.spellings and row.spellings[lower]
  if spelled or contains(row.choices, word) then return spelled or word end
  for _, choice in ipairs(row.choices or {}) do
    if tostring(choice):lower() == lower then return choice end
  end
  return word
end

-- Why another value than the default is refused.
local function because(reason) return reason ~= later and " (" .. reason .. ")" or "" end

--- The checked value of one key that is known; `place` begins the message: "train.yaml:3: ".
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
      fail(place, name, ": wanted a value of type ", kind, ", got null")
    end
    return default
  end
  local parsed, shown = PARSE[kind](value), secrets.shown(name, key_values.show(value))
  local is_empty = parsed == "" or type(parsed) == "table" and next(parsed) == nil
  if is_empty and default == system.null and kind ~= "string" then return default end
  if parsed == nil then fail(place, name, ": wanted ", kind, ", got '", shown, "'") end
  if row.only and not key_values.same(parsed, default) and not (default == system.null
    and parsed == false) then
    fail(place, later, ": ", name, ": ", shown, because(row.only))
  end
  if row.choices or row.spellings then parsed = chosen(row, parsed) end
  if row.own_file and own_pieces.is_file(parsed) then return parsed end
  if row.choices and not contains(row.choices, parsed) then
    shown = secrets.shown(name, key_values.show(parsed))
    if contains(row.others, parsed) then fail(place, later, ": ", name, ": ", shown) end
    fail(place, name, ": wanted ", table.concat(row.choices, " | "),
      row.own_file and " | a .lua file" or "", ", got '", shown, "'",
      system.did_you_mean(shown, row.choices))
  end
  if row.own_file and not row.choices then
    fail(place, name, ": wanted the path of a .lua file, got '", shown, "'")
  end
  return parsed
end

return key_values
