---@meta moonring.native.trace

--- Recording of what each rank does and when; moonring.run uses it for the key `trace`.
---@class moonring.trace
local trace = {}

--- Creates a recorder of this rank's spans; see base/trace/recorder.h.
---@param options? table { most = 1048576: most spans; attention tiles are not recorded once half of
---   them are used }
---@return moonring.Recorder
function trace.recorder(options) end

---@class moonring.Recorder
local Recorder = {}

--- Starts recording this rank's thread, and measures its clock's offset. Collective over all ranks.
---@param mesh moonring.Mesh
function Recorder:start(mesh) end

--- Stops recording, ends open spans, and measures the clock's offset once more. Collective over all
--- ranks.
---@param mesh moonring.Mesh
function Recorder:stop(mesh) end

--- Starts a span nested in the open ones.
---@param name string
---@param category string
---@param number? integer a number shown with the name, such as the step
---@return integer handle for `finish`
function Recorder:begin(name, category, number) end

--- Ends a span, and all spans that were started in it.
---@param span integer
function Recorder:finish(span) end

--- Writes the spans of all ranks into one file, on rank 0. Collective over all ranks. Errors: only
--- on rank 0, if the file cannot be written.
---@param mesh moonring.Mesh
---@param options table { path, details = "{}": a JSON object that is included in the file }
---@return integer left_out number of spans that were dropped for lack of room, over all ranks
---@return number uncertainty largest uncertainty of the ranks' clocks, in seconds
function Recorder:write(mesh, options) end

function Recorder:close() end

return trace
