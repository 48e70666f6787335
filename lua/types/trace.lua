---@meta moonring.native.trace

--- Records what each rank does and when, as spans of time. moonring.run uses this module for the
--- key `trace`.
---@class moonring.trace
local trace = {}

--- Creates a recorder of this rank's spans (base/trace/recorder.h).
---@param options? table { most = 1048576: largest number of spans; once half of them are used, the
---   spans of attention tiles are not recorded }
---@return moonring.Recorder
function trace.recorder(options) end

---@class moonring.Recorder
local Recorder = {}

--- Starts recording on this rank's thread, and measures how its clock differs from the other
--- ranks'. Collective over all ranks.
---@param mesh moonring.Mesh
function Recorder:start(mesh) end

--- Stops recording, ends the spans that are open, and measures the clock's difference once more.
--- Collective over all ranks.
---@param mesh moonring.Mesh
function Recorder:stop(mesh) end

--- Starts a span, nested in the spans that are open.
---@param name string
---@param category string
---@param number? integer a number shown with the name, such as the step
---@return integer handle for `finish`
function Recorder:begin(name, category, number) end

--- Ends a span, and all spans that were started inside it.
---@param span integer
function Recorder:finish(span) end

--- Writes the spans of all ranks into one file, on rank 0. Collective over all ranks. Only rank 0
--- raises an error if the file cannot be written.
---@param mesh moonring.Mesh
---@param options table { path, details = "{}": a JSON object, which is written to the file too }
---@return integer left_out number of spans, over all ranks, that were dropped because the recorder
---   was full
---@return number uncertainty largest uncertainty of the ranks' clocks, in seconds
function Recorder:write(mesh, options) end

function Recorder:close() end

return trace
