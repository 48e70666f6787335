---@meta moonring.native.trace

--- What a rank does and when: what moonring.run records under the key `trace`.
---@class moonring.trace
local trace = {}

--- Records this rank's spans; see base/trace/recorder.h.
---@param options? table { most = 1048576: spans kept; tiles are left out from half of it on }
---@return moonring.Recorder
function trace.recorder(options) end

---@class moonring.Recorder
local Recorder = {}

--- Begins to record what this rank's thread does. Measures its clock. Collective over all ranks.
---@param mesh moonring.Mesh
function Recorder:start(mesh) end

--- Ends the recording, and spans that are open. Measures the clock again. Collective over all
--- ranks.
---@param mesh moonring.Mesh
function Recorder:stop(mesh) end

--- Begins a span within those that are open.
---@param name string
---@param category string
---@param number? integer that it shows under its name: of a step, say
---@return integer of the span, for finish
function Recorder:begin(name, category, number) end

--- Ends a span, and those that have begun after it.
---@param span integer
function Recorder:finish(span) end

--- Writes the spans of all ranks into one file, by rank 0. Collective over all ranks. Errors: on
--- rank 0 alone, where the file cannot be written; the others have taken part.
---@param mesh moonring.Mesh
---@param options table { path, details = "{}": a JSON object that goes into the file }
---@return integer left_out spans that there was no room for, on all ranks
---@return number uncertainty of the ranks' clocks, at the most; seconds
function Recorder:write(mesh, options) end

function Recorder:close() end

return trace
