---@meta moonring.native.safetensors

--- Reads and writes safetensors files.
---@class moonring.safetensors
local safetensors = {}

--- Writes named tensors, each in its own dtype. The file is written completely or not at all.
---@param path string
---@param tensors table<string, moonring.Tensor>
---@param options? table { flush = false: the file is not flushed to disk, the caller does that }
function safetensors.write(path, tensors, options) end

--- Reads a file's tensors; they are memory-mapped.
---@param path string
---@return table<string, moonring.Tensor>
function safetensors.read(path) end

return safetensors
