---@meta moonring.native.safetensors

--- Tensors by name in a safetensors file.
---@class moonring.safetensors
local safetensors = {}

--- Writes tensors, each in its own dtype; the file is there whole or not at all.
---@param path string
---@param tensors table<string, moonring.Tensor>
---@param options? table { flush = false: who calls brings it from the kernel's cache to the disk }
function safetensors.write(path, tensors, options) end

--- The tensors of a file, as pages of it.
---@param path string
---@return table<string, moonring.Tensor>
function safetensors.read(path) end

return safetensors
