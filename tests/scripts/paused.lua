--- moonring paused.lua STEPS GO CONFIG.yaml|key=value...: trains; before each of the steps (7,31) it waits
-- until there is a file of the name GO and the step, so that what is done to it is done before that step,
-- however fast it is.
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
function moonring.run.open(config)
  local run = open(config)
  local update = run.update
  function run:update(step)
    while waits[self.step] and not exists(go .. self.step) do ffi.C.usleep(1000) end
    return update(self, step)
  end
  return run
end

dofile(moonring.system.script_path "train")
