--- moonring -n N traced_run.lua RANK SECONDS CONFIG.yaml|key=value...: trains; RANK sleeps SECONDS
-- before each forward. Each rank prints "rank R sent B" to stderr, where B are the bytes that its
-- mesh counts from the beginning to the end of the trace.
local moonring = require "moonring"
local ffi = require "ffi"
ffi.cdef "int usleep(unsigned);"
local slow, seconds = table.remove(arg, 1), tonumber(table.remove(arg, 1))

local function sent(mesh)
  local _, bytes = mesh:traffic()
  return bytes
end

local Recorder = debug.getregistry()["moonring.classes"].Recorder.__index
local start, stop, before = Recorder.start, Recorder.stop, 0
function Recorder.start(recorder, mesh)
  start(recorder, mesh)
  before = sent(mesh)
end
function Recorder.stop(recorder, mesh)
  io.stderr:write(("rank %d sent %d\n"):format(mesh:rank(), sent(mesh) - before))
  stop(recorder, mesh)
end

local new = moonring.engine.new
function moonring.engine.new(options)
  local engine = new(options)
  local Engine = getmetatable(engine)
  local values = Engine.values
  function Engine.values(...)
    if os.getenv "RANK" == slow then ffi.C.usleep(seconds * 1e6) end
    return values(...)
  end
  return engine
end

dofile(moonring.system.script_path "train")
