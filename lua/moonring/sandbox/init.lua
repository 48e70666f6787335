--- The globals of scripts under --sandbox: Lua's pure libraries and Moonring. A script cannot run
-- programs or load native code or bytecode. It can access files only through Moonring's functions
-- (models, data sets, logs), below the root folders that the host was given. The host's own globals
-- are reduced, too, so that a script that escapes from its globals gains little.
local api_table = require "moonring.base.api_table"
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"
local terminal = require "moonring.base.terminal"

---@class moonring.sandbox
local sandbox = {}

local FUNCTIONS = { "assert", "error", "ipairs", "next", "pairs", "print", "rawequal", "rawget",
  "rawset", "select", "setmetatable", "tonumber", "tostring", "type", "unpack" }
local LIBRARIES = { "bit", "coroutine", "math", "string", "table" }
local OS = { "clock", "date", "difftime", "time" }
local SYSTEM = { "clock", "commands", "did_you_mean", "is_terminal", "json_decode", "json_encode",
  "null", "requested_device", "requested_ranks", "started", "tell_progress", "torch_version",
  "visible", "world_size", "yaml_decode" }

local function refuse(what) errors.raise("PERMISSION_DENIED", "--sandbox: ", what) end

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

-- A metatable that explains why a standard name is missing. Its names come from the original
-- tables, which were recorded at load time, because confine() removes some names.
local function lacks(prefix, from)
  return { __metatable = false, __index = function(_, name)
    if from[name] then refuse(("there is no %s%s"):format(prefix, tostring(name))) end
  end }
end

local function names(from)
  local known = {}
  for name in pairs(from) do known[name] = true end
  return known
end

local KNOWN, KNOWN_OS, KNOWN_SYSTEM = names(_G), names(os), names(system)

-- The functions of `io` that the host's own modules and scripts use: standard streams only, no
-- files.
local IO = { "stdin", "stdout", "stderr", "read", "write", "flush" }
local GONE = { "debug", "jit", "ffi", "newproxy", "module", "loadfile", "dofile", "setfenv",
  "getfenv", "loadstring", "gcinfo" }

local raw_pcall, raw_resume, raw_wrap, raw_load = pcall, coroutine.resume, coroutine.wrap, load
local raw_require = require
local own_loader = package.loaders[2] -- finds Moonring's own modules (lua/vm/vm.cc)

-- Counts a caught error. Every function that catches errors calls this (lua/vm/limits.h).
local function counted(ok, ...)
  if not ok then system.count_caught() end
  return ok, ...
end
local function counted_pcall(f, ...) return counted(raw_pcall(f, ...)) end
local function counted_resume(thread, ...)
  system.check_stack()
  return counted(raw_resume(thread, ...))
end

-- C functions of LuaJIT that call back into Lua. Unbounded nesting of them would overflow the
-- native stack and crash the process (lua/binding/native_stack.h).
local NESTING = { string = { "format", "gsub" }, table = { "foreach", "foreachi", "sort" } }
local function shallow(f)
  return function(...)
    system.check_stack()
    return f(...)
  end
end
local function shallow_wrap(f) return shallow(raw_wrap(f)) end

-- xpcall, except that the handler runs after unwinding. If the instruction counter raises an error,
-- a handler that runs before unwinding could execute uncounted instructions.
local function xpcall_after(f, handler, ...)
  local function handled(ok, ...)
    if ok then return true, ... end
    return false, handler(...)
  end
  return handled(counted_pcall(f, ...))
end

local confined = false

--- Whether scripts of this Lua state are confined.
---@return boolean
function sandbox.is_confined() return confined end

--- Removes access to the machine from the host's own globals. Call it once per state, before any
-- script runs.
function sandbox.confine()
  confined = true
  io, os = pick(io, IO), pick(os, OS)
  for _, name in ipairs(GONE) do _G[name], package.loaded[name] = nil, nil end
  for name in pairs(package.loaded) do
    if name:find "^jit" or name:find "^string%." or name:find "^table%." then
      package.loaded[name] = nil
    end
  end
  package.loaded.io, package.loaded.os = io, os
  for name in pairs(package.preload) do package.preload[name] = nil end
  -- Loader 1 searches package.preload, loader 2 Moonring's own modules; others are removed.
  for i = #package.loaders, 3, -1 do package.loaders[i] = nil end
  package.path, package.cpath, package.loadlib, package.searchpath, package.seeall = "", "", nil,
    nil, nil
  for library, functions in pairs(NESTING) do
    for _, name in ipairs(functions) do _G[library][name] = shallow(_G[library][name]) end
  end
  print, coroutine.wrap = shallow(print), shallow_wrap
  -- Moonring's modules also catch errors of functions that a script passes to them.
  pcall, xpcall, coroutine.resume = counted_pcall, xpcall_after, counted_resume
  string.dump = nil -- scripts could reach it by ("").dump
end

-- collectgarbage, restricted: scripts cannot stop or tune the collector.
local function collect(what, step)
  what = what or "collect"
  if what ~= "collect" and what ~= "count" and what ~= "step" then
    refuse(("there is no collectgarbage '%s'"):format(tostring(what)))
  end
  return collectgarbage(what, step)
end

-- getmetatable, for tables only. A string's metatable belongs to the host. In the metatable of a
-- native object a script could set a finalizer, which would run uncounted.
local function metatable_of(value)
  if type(value) ~= "table" then return false end
  return getmetatable(value)
end

-- load and loadstring: they compile source text with these globals. Bytecode is refused, because it
-- is not memory-safe.
local function text_loader(globals)
  return function(chunk, name, _, env)
    system.check_stack()
    local loaded, why = raw_load(chunk, name, "t", env or globals)
    counted(loaded) -- counts an error of a function that supplies the text
    return loaded, why
  end
end

local CLOSED_ROOMS = { native = true, sandbox = true, prompt = true }

-- Whether a script may require a module. Allowed are Moonring's Lua modules, by their dotted names;
-- confine() disables the search in folders, where a script could have put files. Not allowed are
-- native modules, to which `moonring` gives limited access; this folder, whose modules could undo
-- the sandbox; and the prompt's modules, which compile text with any globals.
local function is_open(name)
  if type(name) ~= "string" or not name:find "^moonring%.[%l%d_.]+$" then return false end
  if CLOSED_ROOMS[name:match "^moonring%.([^.]*)"] then return false end
  return package.loaded[name] ~= nil or confined and type(own_loader(name)) == "function"
end

--- Creates a table of globals with only Lua's pure libraries. It has no `require`, and gives no
--- access to the machine or to the host's own globals (no getfenv, no debug, no metatable of
--- strings).
---@return table
function sandbox.pure()
  local globals = pick(_G, FUNCTIONS)
  for _, name in ipairs(LIBRARIES) do globals[name] = copy(_G[name]) end
  -- Control codes are escaped on a terminal. An embedded runtime prints to a log, unescaped.
  if type(io.stdout) == "userdata" then globals.print = terminal.print end
  globals.string.dump = nil
  globals.os = pick(os, OS)
  globals._VERSION, globals._G = _VERSION, globals
  globals.load = text_loader(globals)
  globals.loadstring = globals.load
  globals.getmetatable, globals.collectgarbage = metatable_of, collect
  globals.pcall, globals.xpcall, globals.coroutine.resume = counted_pcall, xpcall_after,
    counted_resume
  return globals
end

--- Makes a table of globals explain why standard names are missing.
---@param globals table
---@return table globals
function sandbox.explain(globals)
  setmetatable(globals.os, lacks("os.", KNOWN_OS))
  return setmetatable(globals, lacks("", KNOWN))
end

--- Creates a table of globals for a confined script: those of `pure`, and Moonring.
---@return table
function sandbox.globals()
  local globals = sandbox.pure()
  globals.arg = arg
  local moonring = api_table.guard(copy(require "moonring"))
  moonring.system = setmetatable(pick(system, SYSTEM), lacks("moonring.system.", KNOWN_SYSTEM))
  function globals.require(name)
    if name == "moonring" then return moonring end
    if is_open(name) then return raw_require(name) end
    refuse(("require '%s': only Moonring's own modules are here"):format(tostring(name)))
  end
  return sandbox.explain(globals)
end

return sandbox
