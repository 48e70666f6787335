--- Steps of a configuration's run, and no more: no model is saved. moonring roofline_steps.lua
-- CONFIG.yaml [steps=2]
local moonring = require "moonring"
local config = moonring.config.command(arg, { { "steps", "int", 2, "to make" } })
local steps = config.steps
config.steps = nil
-- Which kernels take attention is measured at a run's start; here there is no time to measure.
if config.attention_kernels == "auto" then config.attention_kernels = "flash" end
local run = moonring.run.open(config)
for step, k in run:steps() do
  run:log(run:update(step))
  if k == steps then break end
end
