--- Compares the bytes that `moonring plan` predicts for the attention of a step under shift_attn
-- with those that a step sends: one document of cutoff_len tokens, forward and backward. Writes
-- JSON to a file: { planned, sent }, in bytes of all ranks.
--
--   moonring -n 2 shifted_account.lua [key=value...] out=FILE
local moonring = require "moonring"
local compute = require "moonring.choices.compute"
local memory_facts = require "moonring.plan.facts"
local strategies = require "moonring.choices.strategies"
local config = moonring.config.command({ unpack(arg) }, {
  { "out", "string", moonring.null, "the file to write" },
})
local checkpoint = moonring.policy.open(config)
moonring.launch(config.sequence_parallel_size)
local mesh, model = compute.mesh(config), moonring.policy.load(config, checkpoint)
local facts = memory_facts.run(config, checkpoint,
  { ranks = config.sequence_parallel_size, device = "cpu" })
local step = require("moonring.plan.communication").step(facts)

local ids = {}
for i = 1, config.cutoff_len do ids[i] = i % 40 + 3 end
local attention = strategies.open(config, mesh, model)
local sequence = moonring.comm.sequence { documents = { ids } }
local tokens, positions, _, plan = attention:cut(sequence, nil, config.shift_attn)
local _, before = mesh:traffic()
model:forward(tokens, positions, plan):sum():backward()
local _, after = mesh:traffic()
local sent = mesh:sum(after - before)
if mesh:rank() == 0 then
  moonring.system.write(config.out, moonring.system.json_encode {
    planned = step.attention * mesh:sp_size(), sent = sent,
  })
end
