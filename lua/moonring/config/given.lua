--- Reads the keys and values of a configuration from its file and from command-line words, without
-- checking the values, and records where each key was given. Words override the file. If a word's
-- value is a map, it is merged into the file's map, as in OmegaConf.
local command_words = require "moonring.base.command_words"
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
---@field places table<string, string> "train.yaml:3: ", or the words: "KEY=VALUE: "
---@field from_file table<string, string> like `places`, only for keys from the file
---@field ranks table<string, number> in order: lines of the file, then words
---@field refused { rank: number, text: string }[] errors about single keys
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

-- The value of a command-line word: a YAML scalar, map or list.
local function value_of(word)
  local text = word.text
  local value = text:match "^%s*[%[{]" and map_or_list(word.name, text) or quoted(text) or text
  if NULL[text] then value = system.null end
  for part in word.inner:reverse():gmatch "[^.]+" do value = { [part:reverse()] = value } end
  return value
end

-- Options of the host, which come before the command.
local OF_HOST = { n = "-n 4", device = "--device cuda", sandbox = "--sandbox" }

-- The error of a word that is not a key and value.
local function refuse_word(word, rank, refused)
  local said = word.shown .. ": expected a value"
  if not word.name then
    local key = word.shown:match "^[^=:]*"
    local shown = secrets.is_one(key) and key .. "***" or word.shown
    said = "expected key=value, got '" .. shown .. "'"
    if key_values.rows()[key] then said = said .. ("; did you mean --%s VALUE?"):format(key) end
  end
  refused[#refused + 1] = { rank = rank, text = said }
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

local function unknown_words(entry)
  local of_host = not entry.from_file and OF_HOST[entry.name]
  return entry.place .. "unknown key '" .. entry.name .. "'" .. (of_host
    and ("; it is an option of moonring: moonring %s COMMAND ..."):format(of_host)
    or key_values.nearest(entry.name))
end

-- Resolves aliases. Unknown keys are errors; if ALLOW_EXTRA_ARGS is set they are skipped with a
-- note.
local function known(entries, refused)
  local rows = key_values.rows()
  local found = { values = {}, written = {}, places = {}, from_file = {}, ranks = {}, notes = {},
    refused = refused }
  local function refuse(entry, text) refused[#refused + 1] = { rank = entry.rank, text = text } end
  local function take(entry)
    local own = keys.aliases[entry.name] or entry.name
    if own ~= entry.name and entry.value == system.null then
      return -- an older name that is null, as in a dump of all keys
    end
    if found.values[own] ~= nil or (own ~= entry.name and entries[own]) then
      refuse(entry, ("%s%s is another name of %s, which is given too"):format(entry.place,
        entry.name, own))
    elseif rows[own] then
      found.values[own], found.written[own] = entry.value, entry.written
      found.places[own], found.from_file[own] = entry.place, entry.from_file and entry.place or nil
      found.ranks[own] = entry.rank
    elseif extra_args() then
      found.notes[#found.notes + 1] = unknown_words(entry)
        .. " is skipped, because ALLOW_EXTRA_ARGS is set"
    else
      refuse(entry, unknown_words(entry))
    end
  end
  for _, entry in ipairs(sorted(entries)) do take(entry) end
  return found
end

--- Reads a file and command-line words. Errors: INVALID_ARGUMENT if the file is not valid YAML or
--- has no keys. What is wrong with single keys is in `refused`: unknown keys with the nearest name,
--- words of no accepted form, and keys that are given under two of their names.
---@param path? string
---@param words string[] key=value, --key value (base/command_words.lua)
---@return moonring.GivenKeys
function given.read(path, words)
  local entries, refused = {}, {}
  if path then read_file(path, entries) end
  for i, word in ipairs(command_words.read(words, key_values.kind)) do
    local name, rank = word.name, 2 ^ 40 + i
    if not name or not word.text then
      refuse_word(word, rank, refused)
    else
      local older = entries[name]
      entries[name] = { name = name, value = over(older and older.value, value_of(word)),
        rank = rank, place = (word.lead == "" and word.shown or word.lead
          .. secrets.shown(name, word.text)) .. ": " }
    end
  end
  return known(entries, refused)
end

--- Whether a command's word is the path of a file, and not a key and value. `a=b.yaml` is a path if
--- `a` is not a key and the file exists.
---@param word string
---@return boolean
function given.is_path(word)
  local name = word:match "^([%w_-]+)[%w_.]*="
  if not name then return not word:find "^%-" end
  return not key_values.kind((name:gsub("%-", "_"))) and system.exists(word)
end

return given
