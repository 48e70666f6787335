--- A custom learning rate schedule: linear warmup over the first tenth of the steps, then constant,
-- then linear decay over the last fifth to a tenth of the peak. Works with any run:
--   moonring train CONFIG.yaml lr_scheduler_type=scripts/examples/custom_schedule.lua
local WARMUP, DECAY, FLOOR = 0.1, 0.2, 0.1 -- fractions of the steps, and of the peak

return function(k, total, config) -- k = 0, 1, ..., total - 1
  local rising, falling = math.ceil(WARMUP * total), math.ceil(DECAY * total)
  local left = total - k
  local part = 1
  if k < rising then
    part = (k + 1) / rising
  elseif left < falling then
    part = FLOOR + (1 - FLOOR) * left / falling
  end
  return config.learning_rate * part
end
