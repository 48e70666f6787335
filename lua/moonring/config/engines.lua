--- Settings of other engines as a configuration's own keys: DeepSpeed's, FSDP's, accelerate's.
local accelerator = require "moonring.config.accelerator"
local deepspeed = require "moonring.config.deepspeed"
local fsdp = require "moonring.config.fsdp"

---@class moonring.engines
local engines = {}

--- Takes what they say into the configuration, and adds lines to c.notes. Errors: INVALID_ARGUMENT,
--- naming key, file and setting.
---@param c moonring.Configuration
function engines.apply(c)
  deepspeed.apply(c)
  fsdp.apply(c)
  accelerator.apply(c)
end

return engines
