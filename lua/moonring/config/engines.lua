--- Converts settings of other engines (DeepSpeed, FSDP, accelerate) to keys of the configuration.
local accelerator = require "moonring.config.accelerator"
local deepspeed = require "moonring.config.deepspeed"
local fsdp = require "moonring.config.fsdp"

---@class moonring.engines
local engines = {}

--- Applies the settings of all engines to the configuration, and adds notes to c.notes. Errors:
--- INVALID_ARGUMENT, with key, file and setting.
---@param c moonring.Configuration
function engines.apply(c)
  deepspeed.apply(c)
  fsdp.apply(c)
  accelerator.apply(c)
end

return engines
