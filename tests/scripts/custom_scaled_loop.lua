--- moonring custom_scaled_loop.lua HOW key=value...: stage sft with a custom training loop, whose
-- backward is the run's function ("scaled") or the loss's method ("unscaled").
local moonring = require "moonring"
local how = table.remove(arg, 1)
local run = moonring.run.open(moonring.config.command(arg))
local sft = moonring.objectives.sft { count = "labels" }
for step in run:steps() do
  local count, loss = 0, 0
  for _, micro in ipairs(step:micro_batches()) do
    count = count + sft:count(micro:labels(), micro:sequence():lengths())
  end
  for _, micro in ipairs(step:micro_batches()) do
    moonring.scope(function()
      local ids, positions, targets, plan = run.attention:cut(micro:sequence())
      local hidden = run.model:forward(ids, positions, plan)
      local log_probs = moonring.objectives.log_prob(hidden, run.model:head(), targets,
        { dtype = run.model:matmul_dtype() })
      local share = sft:loss(log_probs, targets) / count
      if how == "scaled" then
        run.updates:backward(share, log_probs)
      else
        share:backward(log_probs)
      end
      loss = loss + share:item()
    end)
  end
  local norm = run.updates:apply(run:lr())
  run:log { loss = loss, grad_norm = norm }
  run:save_if_due()
end
run:finish()
