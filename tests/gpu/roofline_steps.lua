--- Makes some steps of a configuration's run, without saving a model: moonring roofline_steps.lua
-- CONFIG.yaml [steps=2]
local moonring = require "moonring"
local config = moonring.config.command(arg, { { "steps", "int", 2, "to make" } })
local steps = config.steps
config.steps = nil
-- On a GPU, a run measures at its start which attention kernels are fastest; the simulated GPU
-- cannot measure times.
if config.attention_kernels == "auto" then config.attention_kernels = "flash" end
local run = moonring.run.open(config)
for step, k in run:steps() do
  run:log(run:update(step))
  if k == steps then break end
end
