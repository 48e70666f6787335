--- moonring -n N faulty_rank.lua PHASE FAULT RANK FILE CONFIG.yaml|key=value...: trains. In a phase
-- of the second step one rank is killed ("kill"), stopped ("stop") or raises an error ("throw"),
-- after it has written FILE. All ranks begin together, after each has written FILE.RANK, so that a
-- deadline measures their calls, not the time that they need to start.
local moonring = require "moonring"
local compute = require "moonring.choices.compute"
local ffi = require "ffi"
ffi.cdef "int getpid(void); int kill(int, int); int usleep(unsigned);"
local phase, fault, rank, file = table.remove(arg, 1), table.remove(arg, 1), table.remove(arg, 1),
  table.remove(arg, 1)
local SIGKILL, SIGSTOP = 9, 19

local function exists(name)
  local opened = io.open(name)
  return opened and opened:close()
end

io.open(file .. "." .. os.getenv "RANK", "w"):close()
for other = 0, os.getenv "WORLD_SIZE" - 1 do
  while not exists(file .. "." .. other) do ffi.C.usleep(1000) end
end

local function strike()
  if os.getenv "RANK" ~= rank then return end
  io.open(file, "w"):close()
  if fault == "throw" then error("a fault of its own", 0) end
  ffi.C.kill(ffi.C.getpid(), fault == "kill" and SIGKILL or SIGSTOP)
end

-- Wraps the function owner[name], so that its n-th call triggers the fault, before or after its
-- work.
local function at(owner, name, n, after)
  local call, calls = owner[name], 0
  owner[name] = function(...)
    calls = calls + 1
    if calls == n and not after then strike() end
    local result = { call(...) }
    if calls == n and after then strike() end
    return unpack(result)
  end
end

local classes = debug.getregistry()["moonring.classes"]
local new = moonring.engine.new
function moonring.engine.new(options)
  local engine = new(options)
  local Engine = getmetatable(engine)
  if phase == "forward" then at(Engine, "values", 2) end
  if phase == "backward" then at(Engine, "values", 2, true) end
  if phase == "evaluation" then at(Engine, "evaluate", 2) end
  return engine
end
if phase == "birth" then strike() end -- before the ranks have met
if phase == "start" then at(compute, "mesh", 1, true) end
if phase == "sum" then at(classes.States.__index, "sum_gradients", 2) end
if phase == "save" then at(classes.Model.__index, "save", 2) end

dofile(moonring.system.script_path "train")
