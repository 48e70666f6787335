---@meta moonring.native.safetensors

--- Reads and writes safetensors files.
---@class moonring.safetensors
local safetensors = {}

--- Writes tensors by name, each in its dtype. The file is written completely or not at all.
---@param path string
---@param tensors table<string, moonring.Tensor>
---@param options? table { flush = false: the file is not flushed to disk, the caller does that }
function safetensors.write(path, tensors, options) end

--- Reads the tensors of a file by name. They are memory-mapped, so their bytes are read on first
--- use.
---@param path string
---@return table<string, moonring.Tensor>
function safetensors.read(path) end

return safetensors
