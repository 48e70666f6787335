--- A row of expert_ranks.py's table: runs steps of a mixture of experts with expert_parallel_size.
--- Rank 0 prints the seconds of the best step, the bytes of weights, gradients and optimizer state
--- on this rank, and the bytes sent for rows in a step.
local moonring = require "moonring"
local compute = require "moonring.choices.compute"
local optimizers = require "moonring.choices.optimizers"
local strategies = require "moonring.choices.strategies"
local config = moonring.config.command(arg, { { "tokens", "int", 1024, "of a rank" },
  { "steps", "int", 4, "how many" } })
moonring.launch(config.sequence_parallel_size)
local mesh = compute.mesh(config)
local checkpoint = moonring.policy.open(config)
local zero = optimizers.zero(config, mesh)
local model = moonring.policy.learning(config, checkpoint, zero)
local states = optimizers.states(config, zero, model:parameters())
local optimizer = optimizers.open(config, states:parameters(), zero)
local attention = strategies.open(config, mesh, model)
local sft = moonring.objectives.sft { count = "targets" }

local ids, vocabulary = {}, checkpoint:vocab_size()
for i = 1, config.tokens do ids[i] = (7 * i + i * i + 31 * mesh:dp_rank()) % vocabulary end
local function forward_and_backward()
  local sequence = moonring.comm.sequence { documents = { ids } }
  local mine, positions, targets, plan = attention:cut(sequence)
  local log_prob = moonring.objectives.log_prob(model:forward(mine, positions, plan), model:head(),
    targets, { dtype = model:matmul_dtype() })
  sft:loss(log_prob, targets):backward()
end

local best, sent, weights, gradients = math.huge, 0, 0, 0
for _ = 1, config.steps do
  mesh:barrier()
  local began = moonring.system.clock()
  local _, before = zero:expert_traffic()
  moonring.scope(forward_and_backward)
  local _, after = zero:expert_traffic()
  states:sum_gradients()
  sent, weights, gradients = after - before, states:bytes()
  optimizer:step(1e-5)
  states:publish()
  states:clear_gradients()
  mesh:barrier()
  best = math.min(best, moonring.system.clock() - began)
end
if mesh:rank() == 0 then
  print(("%.4f %d %d"):format(best, weights + gradients + optimizer:state_bytes(), sent))
end
