--- Writes the loss and the gradients of a run's first step: moonring -n RANKS router_gradients.lua
-- config=CONFIG.yaml out=FOLDER writes FOLDER/gradients.safetensors and FOLDER/step.json.
local moonring = require "moonring"
local opt = moonring.flags { config = moonring.required, out = moonring.required }

local run = moonring.run.open(moonring.config.load(opt.config, {}))
local step, k = run:steps()()
local loss = run.engine:backward(step, k)
local norm, first = run.states:norm(), run.mesh:rank() == 0
run.model:save_gradients(opt.out .. "/gradients.safetensors", { write = first })
if first then
  moonring.system.write(opt.out .. "/step.json",
    moonring.system.json_encode { loss = loss, grad_norm = norm })
end
run.mesh:barrier()
