--- The globals of a script that runs under --sandbox: Lua's pure libraries and Moonring, no way to run a program, load native code or bytecode,
-- or touch a file but through what Moonring's own functions read and write (models, data sets, logs).
local system = require "moonring.native.system"

local sandbox = {}

local FUNCTIONS = { "assert", "collectgarbage", "error", "ipairs", "next", "pairs", "pcall", "print", "rawequal", "rawget", "rawset", "select",
  "setmetatable", "tonumber", "tostring", "type", "unpack", "xpcall" }
local LIBRARIES = { "bit", "coroutine", "math", "string", "table" }
local OS = { "clock", "date", "difftime", "time" }
local SYSTEM = { "clock", "commands", "did_you_mean", "is_terminal", "json_decode", "json_encode", "null", "requested_device",
  "requested_ranks", "started", "torch_version", "world_size", "yaml_decode" }

local function refuse(what) error("PERMISSION_DENIED: --sandbox: " .. what, 0) end

local function pick(from, names)
  local picked = {}
  for _, name in ipairs(names) do picked[name] = from[name] end
  return picked
end

local function copy(from)
  local copied = {}
  for name, value in pairs(from) do copied[name] = value end
  return copied
end

-- What a missing name says, where it is one that scripts know.
local function lacks(prefix, from)
  return { __metatable = false, __index = function(_, name)
    if from[name] ~= nil then refuse(("there is no %s%s"):format(prefix, tostring(name))) end
  end }
end

-- load and loadstring: source text alone (bytecode can do anything), in these globals.
local function text_loader(globals)
  return function(chunk, name, _, env) return load(chunk, name, "t", env or globals) end
end

--- A new table of globals. Nothing in it leads to the host's own: no getfenv, no debug, no metatable of strings.
function sandbox.globals()
  local globals = pick(_G, FUNCTIONS)
  for _, name in ipairs(LIBRARIES) do globals[name] = copy(_G[name]) end
  globals.string.dump = nil
  globals.os = setmetatable(pick(os, OS), lacks("os.", os))
  globals.arg, globals._VERSION, globals._G = arg, _VERSION, globals
  globals.load = text_loader(globals)
  globals.loadstring = globals.load
  function globals.getmetatable(value)
    if type(value) == "string" then return false end -- shared with the host's own Lua
    return getmetatable(value)
  end

  local moonring = copy(require "moonring")
  moonring.system = setmetatable(pick(system, SYSTEM), lacks("moonring.system.", system))
  function globals.require(name)
    if name == "moonring" then return moonring end
    -- Only what is loaded already: a search would go through folders that the script may have filled.
    if type(name) == "string" and name:find "^moonring%.%a+$" and package.loaded[name] and name ~= "moonring.sandbox" then return package.loaded[name] end
    refuse(("require '%s': only Moonring's own modules are here"):format(tostring(name)))
  end
  return setmetatable(globals, lacks("", _G))
end

return sandbox
