--- moonring tracked_part.lua CONFIG.yaml|key=value...: trains, with a component of the script whose
-- state is saved in checkpoints: numbers, and a moving average of a weight, which it writes to
-- part.json at the end.
local moonring = require "moonring"
local run = moonring.run.open(moonring.config.command(arg))

local part = { seen = { steps = 0, losses = {} } }
function part:state() return { seen = self.seen, average = self.average } end
function part:load_state(state) self.seen, self.average = state.seen, state.average end
run:track("mine", part)

local weight = run.states:parameters():list()[1]
for step in run:steps() do
  local update = run:update(step)
  part.seen.steps = part.seen.steps + 1
  part.seen.losses[#part.seen.losses + 1] = update.loss
  moonring.no_grad(function()
    local now = weight:weight():to "fp64"
    part.average = (part.average and part.average * 0.9 + now * 0.1 or now):keep()
  end)
  run:log(update)
  run:evaluate_if_due()
  run:save_if_due()
end
run:finish()
if run.mesh:rank() == 0 then
  local sum, square = part.average:sum():item(), (part.average ^ 2):sum():item()
  moonring.system.write(run.config.output_dir .. "/part.json",
    moonring.system.json_encode { seen = part.seen, sum = sum, square = square } .. "\n")
end
