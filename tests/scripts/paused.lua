--- moonring paused.lua STEPS GO CONFIG.yaml|key=value...: trains, and before each of STEPS (for
-- example 7,31) waits for a file whose name is GO followed by the step's number. So a test can act
-- on the process before that step, however fast it is. PAUSED_SCRIPT in the environment names
-- another script than train: a command or a path.
local moonring = require "moonring"
local ffi = require "ffi"
ffi.cdef "int usleep(unsigned);"
local steps, go = table.remove(arg, 1), table.remove(arg, 1)
local waits = {}
for step in steps:gmatch "%d+" do waits[tonumber(step)] = true end

local function exists(name)
  local file = io.open(name)
  return file and file:close()
end

local open = moonring.run.open
function moonring.run.open(...)
  local run = open(...)
  local steps_of = run.steps
  function run:steps()
    local next_step = steps_of(self)
    return function()
      local step, k = next_step()
      if step and waits[k] then io.stderr:write(("waits before step %d\n"):format(k)) end
      while step and waits[k] and not exists(go .. k) do ffi.C.usleep(1000) end
      return step, k
    end
  end
  return run
end

local script = os.getenv "PAUSED_SCRIPT" or "train"
dofile(script:find "/" and script or moonring.system.script_path(script))
