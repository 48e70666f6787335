--- Reads the keys and values of a configuration from its file and from command-line words, without
-- checking the values, and records where each key was given. Words override the file. If a word's
-- value is a map, it is merged into the file's map, as in OmegaConf.
local errors = require "moonring.base.errors"
local key_values = require "moonring.config.key_values"
local keys = require "moonring.config.keys"
local secrets = require "moonring.config.secrets"
local system = require "moonring.native.system"

local fail, show = errors.fail, key_values.show

---@class moonring.given
local given = {}

---@class moonring.GivenKeys
---@field values table<string, any> by key, with aliases resolved
---@field written table<string, string> scalars as written in the file
---@field places table<string, string> "train.yaml:3: ", or for a word "KEY=VALUE: "
---@field from_file table<string, string> like `places`, only for keys from the file
---@field notes string[] notes about skipped keys

local function extra_args()
  local asked = (system.environment "ALLOW_EXTRA_ARGS" or ""):lower()
  return asked == "1" or asked == "true" or asked == "y"
end

local NULL = { [""] = true, ["~"] = true, null = true, Null = true, NULL = true }

local function is_map(value) return type(value) == "table" and #value == 0 end

-- Merges a newer value into an older one: maps are merged key by key; anything else is replaced.
local function over(older, value)
  if not is_map(older) or not is_map(value) then return value end
  local merged = {}
  for name, each in pairs(older) do merged[name] = each end
  for name, each in pairs(value) do merged[name] = over(older[name], each) end
  return merged
end

-- The content of a quoted YAML string; nil for other texts.
local function quoted(text)
  if not (text:find "^\".*\"$" or text:find "^'.*'$") then return nil end
  local ok, value = pcall(system.yaml_decode, text)
  return ok and type(value) == "string" and value or nil
end

-- Parses a map or list in a command-line word. The parser's error message quotes its input, so for
-- secret keys another message is used.
local function map_or_list(name, text)
  local ok, value = pcall(system.yaml_decode, text, name)
  if ok then return value end
  if secrets.is_one(name) then fail(name, ": not valid YAML") end
  error(value, 0)
end

-- Parses a command-line word: "key=value", "--key=value", or "key.inner=value" if the key is a map.
-- Values are YAML scalars, maps or lists.
local function word_of(word)
  local name, inner, text = word:match "^%-?%-?([%w_]+)(%.?[%w_.]*)=(.*)$"
  if not name then
    local key = word:match "^[^=:]*"
    if secrets.is_one(key) then word = key .. "***" end
    fail("expected key=value, got '", word, "'")
  end
  local value = text:match "^%s*[%[{]" and map_or_list(name, text) or quoted(text) or text
  if NULL[text] then value = system.null end
  for part in inner:reverse():gmatch "[^.]+" do value = { [part:reverse()] = value } end
  return name, value
end

local function read_file(path, entries)
  local values, lines, texts = system.yaml_decode(system.read(path), path)
  if type(values) ~= "table" or #values > 0 then
    local got = values == system.null and "nothing" or type(values) == "table" and "a list" or "'"
      .. secrets.shown(show(values):match "^[%w_-]*", show(values):sub(1, 40)) .. "'"
    fail(path, ": expected keys and values, got ", got)
  end
  for name, value in pairs(values) do
    entries[name] = { name = name, value = value, written = texts[name], from_file = true,
      rank = lines[name] or 1, place = ("%s:%s: "):format(path, lines[name] or "1") }
  end
end

-- Sorts the entries of a configuration: first those of the file by line, then the command-line
-- words.
local function sorted(entries)
  local list = {}
  for _, entry in pairs(entries) do list[#list + 1] = entry end
  table.sort(list, function(a, b)
    if a.rank ~= b.rank then return a.rank < b.rank end
    return a.name < b.name
  end)
  return list
end

-- Reports all unknown keys in one message.
local function refuse(unknown)
  local said = {}
  for i, entry in ipairs(unknown) do
    said[i] = entry.place .. "unknown key '" .. entry.name .. "'" .. key_values.nearest(entry.name)
  end
  if #said > 0 then fail(table.concat(said, "; ")) end
end

-- Resolves aliases. Unknown keys are errors; if ALLOW_EXTRA_ARGS is set they are skipped with a
-- note.
local function known(entries)
  local rows, unknown = key_values.rows(), {}
  local found = { values = {}, written = {}, places = {}, from_file = {}, notes = {} }
  local function take(entry)
    local own = keys.aliases[entry.name] or entry.name
    if own ~= entry.name and entry.value == system.null then
      return -- an older name that is null, as in a dump of all keys
    end
    if found.values[own] ~= nil or (own ~= entry.name and entries[own]) then
      fail(entry.place, entry.name, " is another name of ", own, ", which is given too")
    elseif rows[own] then
      found.values[own], found.written[own] = entry.value, entry.written
      found.places[own], found.from_file[own] = entry.place, entry.from_file and entry.place or nil
    elseif extra_args() then
      found.notes[#found.notes + 1] = entry.place .. "unknown key '" .. entry.name .. "'"
        .. key_values.nearest(entry.name) .. " is skipped, because ALLOW_EXTRA_ARGS is set"
    else
      unknown[#unknown + 1] = entry
    end
  end
  for _, entry in ipairs(sorted(entries)) do take(entry) end
  refuse(unknown)
  return found
end

--- Reads a file and command-line words. Errors: INVALID_ARGUMENT if the file is not valid YAML or
--- has no keys, if a word is not key=value, or if a key is given under two of its names. All
--- unknown keys are in one message, each with its position and the nearest name.
---@param path? string
---@param words string[] key=value
---@return moonring.GivenKeys
function given.read(path, words)
  local entries = {}
  if path then read_file(path, entries) end
  for i, word in ipairs(words) do
    local name, value = word_of(word)
    local older = entries[name]
    entries[name] = { name = name, value = over(older and older.value, value), rank = 2 ^ 40 + i,
      place = name .. "=" .. secrets.shown(name, show(value)) .. ": " }
  end
  return known(entries)
end

return given
