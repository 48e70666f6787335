--- Prints the memory account at the points of a step where its numbers have closed forms, one JSON
-- line for each: memory_parts.lua model=DIR tokens=T
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, tokens = 64 }
local mesh, checkpoint = moonring.comm.mesh { sp = 1 }, moonring.model.open(opt.model)

local function say(what, more)
  local line = moonring.trainer.live_memory()
  line.what = what
  for name, value in pairs(more or {}) do line[name] = value end
  print(moonring.system.json_encode(line))
end

-- The file has fp32 weights: they are converted to new tensors, not mapped.
local wide = moonring.model.load(checkpoint, { precision = "fp64" })
say "loaded in fp64"
wide:close()
collectgarbage()

local model = moonring.model.load(checkpoint)
say "loaded"
local attention = moonring.attention.create { mesh = mesh }
local ids = {}
for i = 1, opt.tokens do ids[i] = i % checkpoint:vocab_size() end
local adamw = moonring.trainer.adamw(model:parameters())
for step = 1, 2 do
  moonring.scope(function()
    local cut_ids, positions, targets, plan =
      attention:cut(moonring.comm.sequence { documents = { ids }, labels = { ids } })
    local hidden = model:forward(cut_ids, positions, plan)
    say("forward " .. step)
    local loss = -moonring.objectives.log_prob(hidden, model:head(), targets):sum()
    say("loss " .. step)
    loss:backward()
    say("backward " .. step)
  end)
  adamw:step(1e-3)
  say("step " .. step, { state_bytes = adamw:state_bytes() })
  model:parameters():clear_gradients()
end
say "end"
