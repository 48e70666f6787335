---@meta moonring.deepspeed

--- DeepSpeed's JSON file, as far as it bears on a run.
---@class moonring.deepspeed
local deepspeed = {}

--- A line that says what `c.deepspeed` asks for and is not built yet (ZeRO stages, offload), or nil. Refuses a file that cannot be read, and settings that
--- are neither "auto" nor what the configuration says (batch, clipping, rate, precision).
---@param c moonring.Configuration
---@return string?
function deepspeed.note(c) end

return deepspeed
