--- Parser of the key reward_funcs. Its value is one item or a list of items; an item is the path of
-- a Lua or Python file, "KIND", "KIND:ARGUMENT", or a map { KIND = ARGUMENT or options, name = NAME
-- }. FILE.py:NAME,NAME selects functions of a Python file.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.reward_specs
local specs = {}

---@class moonring.RewardSpec
---@field kind string a key of KINDS; its options are further fields
---@field name? string
---@field where string for messages: "reward_funcs[2]"
---@field [string] any

-- The options of each kind, with their types; "!" marks a required option. `main` names the option
-- that an argument sets if it is not a map.
local KINDS = {
  file = { main = "path", path = "text!" },
  format = { main = "pattern", pattern = "text!" },
  exact = { main = "column", column = "text!", pattern = "text", numbers = "bool" },
  length = { main = "most", most = "count", target = "count", slope = "count" },
  json = { main = "keys", keys = "texts", pattern = "text" },
  model = { main = "path", path = "text!" },
  python = { main = "path", path = "text!", functions = "texts", interpreter = "text",
    timeout = "seconds", retries = "number" },
  command = { main = "command", command = "texts!", timeout = "seconds", retries = "number",
    ids = "bool" },
  url = { main = "url", url = "text!", timeout = "seconds", retries = "number", ids = "bool" },
}

local function names_of(known, without)
  local names = {}
  for name in pairs(known) do
    if name ~= without then names[#names + 1] = name end
  end
  return names
end

local KIND_NAMES = names_of(KINDS)

local READ = {}

function READ.text(value)
  if type(value) == "string" and value ~= "" then return value end
  return type(value) == "number" and tostring(value) or nil
end

function READ.texts(value)
  if type(value) == "string" then value = { value } end
  if type(value) ~= "table" or #value == 0 then return nil end
  local texts = {}
  for key, each in pairs(value) do
    if type(key) ~= "number" or type(each) == "table" or each == system.null then return nil end
    texts[key] = tostring(each)
  end
  return texts
end

function READ.bool(value)
  if type(value) == "boolean" then return value end
  return ({ ["true"] = true, yes = true, ["false"] = false, no = false })[value]
end

local function number(value, least, whole)
  value = tonumber(value)
  if not value or not (value >= least and value <= 1e7) then return nil end
  return (not whole or value == math.floor(value)) and value or nil
end
function READ.number(value) return number(value, 0, true) end
function READ.count(value) return number(value, 1, true) end
function READ.seconds(value) return number(value, 1e-3, false) end

local WANTED = { text = "a text", texts = "a list of texts", bool = "true or false",
  number = "a whole number of 0 or more", count = "a whole number of 1 or more",
  seconds = "seconds, above 0" }

local function shown(value)
  if value == system.null then return "null" end
  return type(value) == "table" and system.json_encode(value) or ("'%s'"):format(tostring(value))
end

local function refuse(where, ...) errors.fail(where, ": ", ...) end

local function unknown_kind(where, name)
  refuse(where, "unknown reward '", name, "'", system.did_you_mean(name, KIND_NAMES),
    "; expected the path of a .lua or .py file, or one of ", table.concat(KIND_NAMES, ", "))
end

-- Reads and checks the options of one reward, of the given kind.
local function read_options(where, kind, given)
  local known, spec = KINDS[kind], { kind = kind, where = where }
  for key, value in pairs(given) do
    local wanted = key ~= "main" and known[key]
    if not wanted then
      refuse(where, kind, ": unknown option '", tostring(key), "'",
        system.did_you_mean(tostring(key), names_of(known, "main")), "; known: ",
        table.concat(names_of(known, "main"), ", "))
    end
    local type_name = wanted:match "%a+"
    spec[key] = READ[type_name](value)
    if spec[key] == nil then
      refuse(where, kind, ": ", key, ": expected ", WANTED[type_name], ", got ", shown(value))
    end
  end
  for _, key in ipairs(names_of(known, "main")) do
    if known[key]:find "!$" and spec[key] == nil then
      refuse(where, kind, ": ", key, " is missing: expected ", WANTED[known[key]:match "%a+"])
    end
  end
  return spec
end

local function is_map(value)
  return type(value) == "table" and next(value) ~= nil and #value == 0
end

local function of_kind(where, kind, argument)
  if is_map(argument) then return read_options(where, kind, argument) end
  local path, names = (kind == "python" and tostring(argument) or ""):match "^(.*%.py):([%w_,]+)$"
  if path then
    local functions = {}
    for name in names:gmatch "[^,]+" do functions[#functions + 1] = name end
    return read_options(where, kind, { path = path, functions = functions })
  end
  local is_nothing = argument == system.null or argument == true
    or (type(argument) == "table" and next(argument) == nil)
  return read_options(where, kind, is_nothing and {} or { [KINDS[kind].main] = argument })
end

local function of_text(where, text)
  local kind, argument = text:match "^(%a+):(.*)$"
  if kind and KINDS[kind] then return of_kind(where, kind, argument) end
  if text:find "%.lua$" then return of_kind(where, "file", text) end
  if text:find "%.py$" or text:find "%.py:" then return of_kind(where, "python", text) end
  if KINDS[text] then return of_kind(where, text, system.null) end
  unknown_kind(where, kind or text)
end

-- The kind that a map names. A map that names several kinds is an error.
local function kind_of(where, map)
  local kinds = {}
  for key in pairs(map) do
    if KINDS[key] then
      kinds[#kinds + 1] = key
    elseif key ~= "name" then
      unknown_kind(where, tostring(key))
    end
  end
  if #kinds > 1 then
    refuse(where, "expected one reward, got ", table.concat(kinds, " and "),
      ": each is an item of the list")
  end
  return kinds[1] or refuse(where, "expected one of ", table.concat(KIND_NAMES, ", "))
end

local function of_entry(where, entry)
  if type(entry) == "string" then return of_text(where, entry) end
  if not is_map(entry) then
    refuse(where, "expected the path of a .lua or .py file, or a reward's kind and its argument, ",
      "got ", shown(entry))
  end
  local kind = kind_of(where, entry)
  local spec = of_kind(where, kind, entry[kind])
  if entry.name ~= nil then
    spec.name = READ.text(entry.name)
    local has_names = kind == "file" or kind == "python"
    if not spec.name or has_names then
      refuse(where, has_names and "a file's functions have names of their own"
        or "name: expected a text, got " .. shown(entry.name))
    end
  end
  return spec
end

--- Parses the value of reward_funcs. Errors: INVALID_ARGUMENT, with the nearest name.
---@param given string | table
---@return moonring.RewardSpec[]
function specs.read(given)
  local is_one = type(given) == "string" or is_map(given)
  if not is_one and (type(given) ~= "table" or #given == 0) then
    errors.fail("reward_funcs: expected the path of a .lua or .py file, a reward or a list of ",
      "them, got ", given == nil and "nothing" or shown(given))
  end
  local list = {}
  for i, entry in ipairs(is_one and { given } or given) do
    list[i] = of_entry(is_one and "reward_funcs" or ("reward_funcs[%d]"):format(i), entry)
  end
  return list
end

--- Resolves a spec's path relative to `folder`.
---@param path string
---@param folder? string base of relative paths
---@return string
function specs.path(path, folder)
  if not folder or path:sub(1, 1) == "/" or path:find "^builtin:" then return path end
  return folder .. "/" .. path
end

--- The text by which values of reward_funcs are compared, between ranks and between a resumed run
--- and its checkpoint: the value, with the digests of the files that it names.
---@param given string | table
---@param folder? string base of relative paths
---@return string
function specs.mark(given, folder)
  local list = specs.read(given)
  for _, spec in ipairs(list) do
    if spec.kind == "file" or spec.kind == "python" then
      local read, text = pcall(system.read, specs.path(spec.path, folder))
      if not read then errors.prefix(text, spec.where, ": ") end
      spec.sha1 = system.sha1(text)
    end
  end
  return system.json_encode(list)
end

return specs
