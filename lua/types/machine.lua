---@meta moonring.machine

--- The machine that a run is on, and those that are spoken of: memory and links.
---@class moonring.machine
local machine = {}

--- Bytes of "80GiB", "500MB" or the like. Errors: INVALID_ARGUMENT, beginning with the key.
---@param text string
---@param key string
---@return number
function machine.bytes(text, key) end

--- Bytes a second of a link: GB/s, or a name such as nvlink. Errors: INVALID_ARGUMENT, beginning with the key.
---@param text string | number
---@param key string
---@return number
function machine.link(text, key) end

--- The host's memory in bytes, no more than the control group of this process allows.
---@return { total: number, available: number }
function machine.host_memory() end

--- The ranks of this machine, as torchrun and `moonring -n` tell them (LOCAL_WORLD_SIZE); nil where nobody did.
---@return integer?
function machine.local_ranks() end

--- What each of `ranks` ranks on this machine can have now, in bytes: a share of the host's memory, or a GPU's free memory,
--- of which ranks that share one (MOONRING_EXCHANGE=host) each have a part. nil where nobody can say.
---@param device "cpu" | "cuda"
---@param ranks integer
---@return number?
function machine.memory_of_rank(device, ranks) end

--- A count for people: "134,515,008".
---@param number integer
---@return string
function machine.grouped(number) end

--- A size for people: "14.2 GiB".
---@param bytes number
---@return string
function machine.show(bytes) end

return machine
