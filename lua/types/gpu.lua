---@meta moonring.gpu

--- The GPUs of a run: what each rank has and can do, and whether that is what the configuration wants.
---@class moonring.gpu
local gpu = {}

--- What a GPU is, in words.
---@param found table { name, major, minor, multiprocessors, driver, runtime } of `trainer.gpu`, where it knows, and `total` bytes
---@return string
function gpu.describe(found) end

--- Why a configuration cannot run on a GPU, and what to change; nil where it can.
---@param c moonring.Configuration
---@param found table as describe's
---@return string?
function gpu.refusal(c, found) end

--- One line for each kind of GPU.
---@param ranks { words: string, free: number }[] by rank
---@return string[]
function gpu.lines(ranks) end

--- Ends a run that its GPU cannot make, with an INVALID_ARGUMENT that says what to change, and says what the ranks' GPUs are. Collective.
---@param c moonring.Configuration
---@param device "cpu" | "cuda"
---@param mesh moonring.Mesh
---@return string[] lines for a log
function gpu.check(c, device, mesh) end

return gpu
