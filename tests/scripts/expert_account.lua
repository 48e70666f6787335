--- Measures the memory and the communication of a step of a mixture of experts with expert
-- parallelism, and compares them with the plan's prediction. Rank 0 prints a line for each
-- difference; the exit code is then 1.
local moonring = require "moonring"
local compute = require "moonring.choices.compute"
local memory_facts = require "moonring.plan.facts"
local optimizers = require "moonring.choices.optimizers"
local strategies = require "moonring.choices.strategies"
local communication = require "moonring.plan.communication"
local memory = require "moonring.plan.memory"
local config = moonring.config.command(arg, {})
moonring.launch(config.sequence_parallel_size)
local mesh = compute.mesh(config)
local checkpoint = moonring.policy.open(config)
local zero = optimizers.zero(config, mesh)
local model = moonring.policy.learning(config, checkpoint, zero)
local states = optimizers.states(config, zero, model:parameters())
local optimizer = optimizers.open(config, states:parameters(), zero)
local attention = strategies.open(config, mesh, model)

local TOKENS, MICRO_BATCHES = 120, 2
local ids = {}
for i = 1, TOKENS do ids[i] = (7 * i + i * i) % 600 end
local sft = moonring.objectives.sft { count = "targets" }
local function pass()
  local sequence = moonring.comm.sequence { documents = { ids } }
  local mine, positions, targets, plan = attention:cut(sequence)
  local hidden = model:forward(mine, positions, plan)
  local log_prob = moonring.objectives.log_prob(hidden, model:head(), targets,
    { dtype = model:matmul_dtype() })
  sft:loss(log_prob, targets):backward()
end
local _, before = zero:expert_traffic()
for _ = 1, MICRO_BATCHES do pass() end
local _, after = zero:expert_traffic() -- only the row counts, if no other rank shares the group
states:sum_gradients()
local weights, gradients = states:bytes()
optimizer:step(1e-4)

local run = memory_facts.run(config, checkpoint, { ranks = mesh:size(), device = "cpu" })
local f = setmetatable({ tokens = TOKENS, alone = TOKENS, step = MICRO_BATCHES * TOKENS,
  micro_batches = MICRO_BATCHES }, { __index = run })
local found = memory.predict(f)
local at_step
for _, each in ipairs(found.moments) do
  if each.name == "step" then at_step = each.parts end
end
local wrong = false
local function compare(what, measured, predicted, tolerance)
  local mean = mesh:sum(measured) / mesh:size()
  if math.abs(mean - predicted) <= tolerance * math.max(predicted, 1) then return end
  wrong = true
  if mesh:rank() ~= 0 then return end
  print(("%s: measured %.0f, predicted %.0f"):format(what, mean, predicted))
end
compare("rows to experts and back", after - before, communication.step(f).experts, 0)
-- The size of each weight's shard is rounded up. Optimizer states exist only for trainable weights.
if config.finetuning_type == "full" then
  compare("weights and masters", weights + optimizer:state_bytes(), at_step.weights
    + at_step.optimizer, 5e-3)
end
compare("gradients", gradients, at_step.gradients, 5e-3)
if wrong then os.exit(1) end
