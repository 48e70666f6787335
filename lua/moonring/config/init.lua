--- Loads a training configuration: a YAML (or JSON) file with key=value overrides (given.lua).
-- Values are checked by key_values.lua.
local errors = require "moonring.base.errors"
local given = require "moonring.config.given"
local key_pairs = require "moonring.config.key_pairs"
local key_values = require "moonring.config.key_values"
local placed = require "moonring.config.placed"
local system = require "moonring.native.system"

local fail, show, same = errors.fail, key_values.show, key_values.same

---@class moonring.config
local config = {}

local OFF = { [false] = true, no = true, none = true, [system.null] = true }

local function is_off(value)
  if type(value) == "table" then
    if #value > 1 then return false end
    value = value[1] or false
  end
  return value == nil or OFF[value] == true
end

local function is_or_has(value, wanted)
  for _, each in ipairs(type(value) == "table" and value or { value }) do
    if each == wanted then return true end
  end
  return false
end

-- The reason why a key that is set has no effect; nil if the key has an effect.
local function idle(row, values)
  if row.ignored or not row.of then return row.ignored end
  local of, wanted = row.of, {}
  if type(of) == "table" then of, wanted = of[1], { unpack(of, 2) } end
  local value = values[of]
  for _, each in ipairs(wanted) do
    if is_or_has(value, each) then return nil end
  end
  if #wanted > 0 then return ("it acts with %s: %s"):format(of, table.concat(wanted, ", ")) end
  return is_off(value) and ("it acts with %s"):format(of) or nil
end

-- Adds a note for each key that is set but has no effect. If such a key only configures another key
-- that also has no effect, the note of the other key is enough; if that one is not set, all such
-- keys have one note.
local function idle_notes(names, values, found, notes)
  local rows, parts = key_values.rows(), {}
  local function changed(name) return not same(values[name], rows[name][3]) end
  for _, name in ipairs(names) do
    local row = rows[name]
    local owner = row.part_of and found.values[row.part_of] ~= nil and changed(row.part_of)
    local why = changed(name) and not owner and idle(row, values)
    local of_same = why and row.part_of and parts[row.part_of]
    if of_same then
      of_same.names = of_same.names .. ", " .. name
      notes[of_same.place] = ("%s: no effect: %s"):format(of_same.names, why)
    elseif why then
      local got = row.secret and "" or (" (got %s)"):format(found.written[name]
        or show(found.values[name]))
      notes[#notes + 1] = ("%s: no effect: %s%s"):format(name, why, got)
      if row.part_of then parts[row.part_of] = { names = name, place = #notes } end
    end
  end
end

-- The value of a key, to be parsed. For keys of type string it is the text in the file, so that 1e5
-- and 007 stay unchanged.
local function value_of(found, name)
  local value, kind = found.values[name], key_values.rows()[name][2]
  local is_scalar = type(value) == "number" or type(value) == "boolean"
  if is_scalar and kind ~= "any" and kind ~= "bool" then return found.written[name] or value end
  return value
end

-- Checks the values of known keys. Raises one error about all keys that are refused, first those of
-- the file.
local function check_values(found, checked)
  local refused = found.refused
  for name in pairs(found.values) do
    local ok, value = pcall(key_values.check, found.places[name], name, value_of(found, name))
    if ok then
      checked[name] = value
    elseif errors.is(value, "INVALID_ARGUMENT") then
      refused[#refused + 1] = { rank = found.ranks[name], text = errors.words(value) }
    else
      error(value, 0)
    end
  end
  table.sort(refused, function(a, b)
    if a.rank ~= b.rank then return a.rank < b.rank end
    return a.text < b.text
  end)
  for i, each in ipairs(refused) do refused[i] = each.text end
  if #refused > 0 then fail(table.concat(refused, "; ")) end
end

--- Loads a configuration from a file and overrides, which have priority. Raises one error about all
--- unknown keys (with suggestions), unsupported values, and values of a wrong type; for each with
--- the file and line, or the words. Commands then end with exit code 2.
---@param path? string
---@param words string[] key=value, --key=value or --key value; values are YAML scalars, lists or
--- maps. A bool without a value is true, --no_key is false
---@param allowed? moonring.KeyRow[] additional keys of this command
---@return moonring.Configuration
function config.load(path, words, allowed)
  for _, row in ipairs(allowed or {}) do key_values.add(row) end
  local found, names, checked = given.read(path, words), {}, {}
  for name in pairs(found.values) do names[#names + 1] = name end
  for name, row in pairs(key_values.rows()) do checked[name] = row[3] end
  check_values(found, checked)
  key_pairs.merge(checked)
  local notes = found.notes
  idle_notes(names, checked, found, notes)
  table.sort(notes)
  local result = { path = path, given = found.values, notes = notes, places = found.from_file }
  for name, value in pairs(checked) do
    if value ~= system.null then result[name] = value end
  end
  key_pairs.settle(result)
  return result
end

--- Loads the configuration of a command from its words. The first word may be CONFIG.yaml or
--- builtin:NAME; all others are keys and values. Without any word the command's usage is printed,
--- with exit code 2.
---@param words string[] `arg`
---@param allowed? moonring.KeyRow[] additional keys of this command
---@return moonring.Configuration
function config.command(words, allowed)
  if #words == 0 then
    local name = tostring(words[0]):match "([%w_]+)%.lua$"
    fail("usage: ", system.read(words[0]):match "^%-%-%- (moonring [^:\n]*):" or name,
      "; see moonring help ", name)
  end
  local rest = { unpack(words) }
  local path = config.path(rest)
  local builtin = path and path:match "^builtin:(.+)$"
  return config.load(builtin and system.builtin(builtin) or path, rest, allowed)
end

--- Removes the path that a command's words begin with, and returns it. `a=b` is a path if `a` is
--- not a key and the file exists.
---@param words string[] `arg`
---@param usage? string "moonring inspect MODEL [tokens=N]": raised as an error if there is no path
---@return string? path
function config.path(words, usage)
  if words[1] and given.is_path(words[1]) then return table.remove(words, 1) end
  if usage then fail("usage: ", usage) end
end

--- Fails if one of these keys is absent.
---@param loaded moonring.Configuration
---@param required string[]
function config.require_keys(loaded, required)
  for _, name in ipairs(required) do
    if loaded[name] == nil then fail(loaded.path or "configuration", ": ", name, " is missing") end
  end
end

--- Checks the path of an output file before the work that produces the file. The path's folder must
--- exist, and the path must not be a folder itself. The key may be absent.
---@param loaded moonring.Configuration
---@param name string the key that names the file
function config.check_output(loaded, name)
  local path = loaded[name]
  local folder = path and path:match "^(.*)/[^/]*$"
  if folder and folder ~= "" and not system.is_folder(folder) then
    fail(name, ": no folder '",
      folder, "' to write ", path, " in")
  end
  if path and system.is_folder(path) then
    fail(name, ": ", path, " is a folder, expected a file")
  end
end

--- Calls f. If f raises an error about a key that the file sets, puts the key's position
--- ("train.yaml:3: ") before the message.
---@param loaded moonring.Configuration
---@param f function
---@param ... any arguments of f
---@return any ... results of f
function config.placed(loaded, f, ...) return placed.call(loaded, f, ...) end

--- Ends the script with exit code 2: "moonring: " and the arguments concatenated (base/errors.lua).
---@param ... string | number
function config.fail(...) errors.fail(...) end

return config
