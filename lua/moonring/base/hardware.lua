--- The hardware of this machine, as its kernel describes it. What cannot be determined is nil.
local optional_text = require "moonring.base.optional_text"
local trainer = require "moonring.native.trainer"

---@class moonring.hardware
local hardware = {}

--- The name of the machine.
---@return string?
function hardware.host() return optional_text.read("/proc/sys/kernel/hostname"):match "%S+" end

--- The name of the processor.
---@return string?
function hardware.processor()
  return optional_text.read("/proc/cpuinfo"):match "model name%s*:%s*([^\n]*)"
end

--- Number of the machine's processor cores that are online.
---@return integer?
function hardware.cores()
  local _, online = optional_text.read("/proc/cpuinfo"):gsub("processor%s*:", "")
  return online > 0 and online or nil
end

--- The name of this rank's GPU; nil without a GPU.
---@return string?
function hardware.gpu()
  local ok, gpu = pcall(trainer.gpu)
  return ok and gpu and gpu.name or nil
end

return hardware
