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

local make = moonring.updates.new
function moonring.updates.new(config, options)
  local updates = make(config, options)
  return setmetatable({ make = function(_, step, k, lr)
    while waits[k] and not exists(go .. k) do ffi.C.usleep(1000) end
    return updates:make(step, k, lr)
  end }, { __index = updates })
end

dofile(moonring.system.script_path "train")
