--- Makes some steps of a configuration's run, without saving a model: moonring roofline_steps.lua
-- CONFIG.yaml [steps=2]
local moonring = require "moonring"
local config = moonring.config.command(arg, { { "steps", "int", 2, "to make" } })
local steps = config.steps
config.steps = nil
-- A run measures at its start which attention kernels are fastest; the pretend device has no time
-- to measure.
if config.attention_kernels == "auto" then config.attention_kernels = "flash" end
local run = moonring.run.open(config)
for step, k in run:steps() do
  run:log(run:update(step))
  if k == steps then break end
end
