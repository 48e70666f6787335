--- A training configuration: a YAML (or JSON) file, then key=value overrides, checked by
-- key_values.lua.
local errors = require "moonring.errors"
local key_values = require "moonring.config.key_values"
local keys = require "moonring.config.keys"
local system = require "moonring.native.system"

local fail, show, same = errors.fail, key_values.show, key_values.same

---@class moonring.config
local config = {}

local function extra_args()
  local asked = (system.environment "ALLOW_EXTRA_ARGS" or ""):lower()
  return asked == "1" or asked == "true" or asked == "y"
end

--- "key=value" words (a leading "--" is fine), values as YAML scalars.
local function overrides(words)
  local found = {}
  for _, word in ipairs(words) do
    local name, text = word:match "^%-?%-?([%w_]+)=(.*)$"
    if not name then fail("wanted key=value, got '", word, "'") end
    local value = text:match "^%s*[%[{]" and system.yaml_decode(text, name) or text
    if text == "null" or text == "" then value = system.null end
    found[#found + 1] = { name, value }
  end
  return found
end

-- What was given, by the keys' own names, and where. Unknown keys are noted and left out where the
-- environment asks for it.
local function known(given, place, notes)
  local values, places, sorted = {}, {}, {}
  for name in pairs(given) do sorted[#sorted + 1] = name end
  table.sort(sorted)
  for _, name in ipairs(sorted) do
    local own = keys.aliases[name] or name
    if values[own] ~= nil or (own ~= name and given[own] ~= nil) then
      fail(place[name], name, " is another name of ", own, ", which is given too")
    end
    if key_values.rows()[own] or not extra_args() then
      values[own], places[own] = given[name], place[name]
    else
      notes[#notes + 1] = place[name] .. "unknown key '" .. name .. "'"
        .. key_values.nearest(name) .. " is passed over, as ALLOW_EXTRA_ARGS asks"
    end
  end
  return values, places
end

-- Why a key that was given changes nothing, where that is so.
local function idle(row, values)
  if row.ignored or not row.of then return row.ignored end
  local of, wanted = row.of, {}
  if type(of) == "table" then of, wanted = of[1], { unpack(of, 2) } end
  local value = values[of]
  for _, each in ipairs(wanted) do
    if value == each then return nil end
  end
  if #wanted > 0 then return ("it acts with %s: %s"):format(of, table.concat(wanted, ", ")) end
  local off = value == nil or value == system.null or value == false or value == "no"
  return off and ("it acts with %s"):format(of) or nil
end

--- Reads a file and the overrides, which win. Errors name the file and line: an unknown key (with
--- the nearest), one that is not supported yet, a value of a wrong type. They end the process with
--- exit code 2.
---@param path? string
---@param words string[] key=value, a leading "--" is fine; values as YAML scalars or lists
---@param allowed? moonring.KeyRow[] keys that this command alone has
---@return moonring.Configuration
function config.load(path, words, allowed)
  for _, row in ipairs(allowed or {}) do key_values.add(row) end
  local rows = key_values.rows()
  local given, place, from_file = {}, {}, {}
  if path then
    local text = system.read(path)
    local values, lines = system.yaml_decode(text, path)
    if type(values) ~= "table" or #values > 0 then
      local got = values == system.null and "nothing" or type(values) == "table" and "a list" or "'"
        .. show(values):sub(1, 40) .. "'"
      fail(path, ": wanted keys and values, got ", got)
    end
    for name, value in pairs(values) do
      given[name], place[name] = value, ("%s:%s: "):format(path, lines[name] or "1")
      from_file[keys.aliases[name] or name] = place[name]
    end
  end
  for _, override in ipairs(overrides(words)) do
    given[override[1]], place[override[1]] = override[2], override[1] .. "=" .. show(override[2])
      .. ": "
    from_file[keys.aliases[override[1]] or override[1]] = nil
  end
  local notes = {}
  given, place = known(given, place, notes)
  local sorted = {}
  for name in pairs(given) do sorted[#sorted + 1] = name end
  table.sort(sorted)
  local checked = {}
  for name, row in pairs(rows) do checked[name] = row[3] end
  for _, name in ipairs(sorted) do
    checked[name] = key_values.check(place[name], name, given[name])
  end
  for _, name in ipairs(sorted) do
    local why = not same(checked[name], rows[name][3]) and idle(rows[name], checked)
    if why then
      notes[#notes + 1] = ("%s: no effect: %s (got %s)"):format(name, why, show(given[name]))
    end
  end
  table.sort(notes)
  local result = { path = path, given = given, notes = notes, places = from_file }
  for name, value in pairs(checked) do
    if value ~= system.null then result[name] = value end
  end
  return result
end

--- The configuration of a command: CONFIG.yaml, where the first word is no key=value, and the words
--- after it. Without any word: how the command is used, and exit code 2.
---@param words string[] `arg`
---@param allowed? moonring.KeyRow[] keys that this command alone has
---@return moonring.Configuration
function config.command(words, allowed)
  if #words == 0 then
    local name = tostring(words[0]):match "([%w_]+)%.lua$"
    fail("usage: ", system.read(words[0]):match "^%-%-%- (moonring [^:\n]*):" or name,
      "; moonring help ", name, " says more")
  end
  local rest, path = {}, nil
  for i, word in ipairs(words) do
    if i == 1 and not word:find "=" then path = word else rest[#rest + 1] = word end
  end
  return config.load(path, rest, allowed)
end

--- Refuses a configuration that lacks one of these keys.
---@param loaded moonring.Configuration
---@param required string[]
function config.require_keys(loaded, required)
  for _, name in ipairs(required) do
    if loaded[name] == nil then fail(loaded.path or "configuration", ": ", name, " is missing") end
  end
end

--- Refuses a file to write whose folder is not there, or that is a folder, before the work that it
--- is for. A key that is absent is fine.
---@param loaded moonring.Configuration
---@param name string the key that names the file
function config.check_output(loaded, name)
  local path = loaded[name]
  local folder = path and path:match "^(.*)/[^/]*$"
  if folder and folder ~= "" and not system.is_folder(folder) then
    fail(name, ": no folder '",
      folder, "' to write ", path, " in")
  end
  if path and system.is_folder(path) then fail(name, ": ", path, " is a folder, wanted a file") end
end

--- Ends the script: "moonring: " and the arguments joined, exit code 2 (moonring.errors.fail).
---@param ... string | number
function config.fail(...) errors.fail(...) end

return config
