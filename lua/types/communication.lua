---@meta moonring.communication

--- What a training step sends, and an estimate of how long links take for it.
---@class moonring.communication
local communication = {}

--- Bytes that a rank sends in a step, on average: every layer's attention; gradients and sharded states.
---@param f moonring.MemoryFacts
---@return { attention: number, states: number }
function communication.step(f) end

--- Seconds of these bytes over links of so many bytes a second, without latency and with nothing hidden under computation.
---@param f moonring.MemoryFacts
---@param near number within a machine
---@param far number between machines
---@return number
function communication.seconds(f, near, far) end

return communication
