--- moonring short_of_memory.lua FAULTS CONFIG.yaml|key=value...: trains with simulated
-- out-of-memory errors. FAULTS is a list of RANK:N ("0:2,0:3"): the N-th forward of that rank
-- fails, counted from 1 over the whole run. It fails after its work, so that its tensors exist and
-- must be freed.
local moonring = require "moonring"
local faults = {}
for rank, forward in table.remove(arg, 1):gmatch "(%d+):(%d+)" do
  if rank == (os.getenv "RANK" or "0") then faults[tonumber(forward)] = true end
end

local native = require "moonring.native.errors"
local new, forwards = moonring.engine.new, 0
function moonring.engine.new(options)
  local engine = new(options)
  local loss = engine.loss
  function engine:loss(...)
    local sum, more, joined = loss(self, ...)
    forwards = forwards + 1
    if faults[forwards] then
      error(native.new("RESOURCE_EXHAUSTED", "out of memory: a fault of its own", "", true), 0)
    end
    return sum, more, joined
  end
  return engine
end

dofile(moonring.system.script_path "train")
