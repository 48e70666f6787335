--- Measures training steps on one document: prints the mean and the median in seconds over all
--- steps except the first.
--
--   moonring [-n 2] tests/peers/step_times.lua model=DIR tokens=64 steps=100 sp=2
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, tokens = 64, steps = 100, sp = 1 }
local mesh, checkpoint = moonring.comm.mesh { sp = opt.sp }, moonring.model.open(opt.model)
local model = moonring.model.load(checkpoint)
local attention = moonring.attention.create { mesh = mesh }
local ids = {}
for i = 1, opt.tokens do ids[i] = (i * 7919) % 40 + 3 end -- ids in any vocabulary
local sequence = moonring.comm.sequence { documents = { ids } }
local weights = model:parameters()
local adamw, times = moonring.trainer.adamw(weights), {}
for k = 0, opt.steps do
  local began = moonring.system.clock()
  moonring.scope(function()
    local local_ids, positions, targets, plan = attention:cut(sequence)
    local hidden = model:forward(local_ids, positions, plan)
    local loss = moonring.objectives.log_prob(hidden, model:head(), targets):sum() / -opt.tokens
    loss:backward()
  end)
  moonring.trainer.sum_gradients(weights, mesh)
  moonring.trainer.clip_gradients(weights, { max_norm = 1.0 })
  adamw:step(1e-4)
  weights:clear_gradients()
  -- The first step is not counted, because it prepares data that the others use.
  if k > 0 then times[k] = moonring.system.clock() - began end
end
if mesh:rank() == 0 then
  local sum = 0
  for _, seconds in ipairs(times) do sum = sum + seconds end
  table.sort(times)
  print(("%.6f %.6f"):format(sum / #times, times[math.ceil(#times / 2)]))
end
