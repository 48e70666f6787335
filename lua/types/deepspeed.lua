---@meta moonring.deepspeed

--- DeepSpeed's JSON file, as far as it bears on a run.
---@class moonring.deepspeed
local deepspeed = {}

--- Sets zero_stage, zero_group, offload_optimizer and offload_dir as `c.deepspeed` asks for. Refuses a file that cannot be read, settings that are neither "auto" nor what
--- the configuration says (batch, clipping, rate, precision, these keys), and what it asks for that there is not.
---@param c moonring.Configuration
function deepspeed.apply(c) end

return deepspeed
