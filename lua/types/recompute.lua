---@meta moonring.recompute

--- Which layers spend memory on time: `recompute: auto`.
---@class moonring.recompute
local recompute = {}

--- How many layers can keep everything, and how many after them attention's result.
---@param f moonring.MemoryFacts
---@param bytes number that a rank may take
---@return integer whole
---@return integer selective
function recompute.layers(f, bytes) end

--- Settles `recompute: auto`: sets the configuration's whole_layers and selective_layers. A line for the log, where there was something to settle.
---@param c moonring.Configuration
---@param f moonring.MemoryFacts
---@param bytes number that a rank has
---@return string?
function recompute.settle(c, f, bytes) end

return recompute
