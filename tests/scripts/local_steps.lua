--- Trains with local_steps and prints one line: the bytes that rank 0 has sent for synchronizing
-- the groups, the bytes of all other communication that the mesh counts (in the sp group and the
-- world), the bytes of memory that local_steps takes, and the plan's prediction of both.
local moonring = require "moonring"
local memory_facts = require "moonring.plan.facts"
local communication = require "moonring.plan.communication"
local memory = require "moonring.plan.memory"

local config = moonring.config.command(arg, {})
local run = moonring.run.open(config)
local _, before = run.mesh:traffic()
local held, sent = 0, 0
for step in run:steps() do
  run:log(run:update(step))
  if run.rounds then held = math.max(held, run.rounds.outer:state_bytes()) end
end
local _, after = run.mesh:traffic()
if run.rounds then
  local _, bytes = run.rounds.outer:traffic()
  sent = bytes
end
run:finish()
local f = memory_facts.run(config, run.checkpoint,
  { ranks = run.mesh:size(), device = "cpu" })
if run.mesh:rank() == 0 then
  print(moonring.system.json_encode { sent = sent, others = after - before, held = held,
    predicted = memory.predict(f).outer, outer = communication.step(f).outer,
    states = communication.step(f).states })
end
