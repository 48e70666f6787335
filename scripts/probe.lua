--- moonring probe model_name_or_path=DIR input=IN.json out=OUT.json [key=value...]: computes a
-- model's loss, logits and gradients on given tokens. Keys: those of train (sequence_parallel_size,
-- bf16, fp64, rope_scaling, moe_aux_loss_coef with all documents as one batch, ...), and
-- grads=FILE.safetensors to write the gradients.
--   in   { input_ids, labels (unshifted), positions: token positions to report, lengths: of the
--        packed documents (absent: one document) }
--   out  { loss: mean over the predictions, logits: of ids 0..7 at each position, logsumexp (at
--        each position), grad_norm: by parameter name, grad_norm_total }
-- Gradients are those of `loss`. A tied weight appears once, under the name of the embedding.
local moonring = require "moonring"
local compute = require "moonring.choices.compute"
local loss_scale = require "moonring.run.loss_scale"
local packing = require "moonring.model.packing"
local probe = require "moonring.commands.probe"
local routers = require "moonring.run.router"
local strategies = require "moonring.choices.strategies"
local vocabulary = require "moonring.data.vocabulary"
local config = moonring.config.command(arg, {
  { "input", "string", moonring.null, "the tokens" },
  { "out", "string", moonring.null, "the file to write" },
  { "grads", "string", moonring.null, "a file for the gradients themselves" },
})
moonring.config.require_keys(config, { "model_name_or_path", "input", "out" })
strategies.check(config)
if packing.of(config) and not packing.adapter(config) then
  moonring.config.fail "quantization_bit: packed weights have no gradients; expected an adapter"
end
for _, key in ipairs { "out", "grads" } do moonring.config.check_output(config, key) end
local checkpoint = moonring.policy.open(config)
strategies.check_shifted(config, checkpoint:facts())
local idle = strategies.idle_mixing(config, checkpoint:facts())
if vocabulary.asked(config) then vocabulary.open(config, checkpoint) end
local input = probe.read(config.input, checkpoint:vocab_size())
moonring.launch(config.sequence_parallel_size, compute.least_ranks(config), 0,
  config.expert_parallel_size)

local mesh = compute.mesh(config)
local zero = moonring.trainer.zero { mesh = mesh, expert_ranks = config.expert_parallel_size }
local model = moonring.policy.load(config, checkpoint, zero)
local states = zero:states(model:parameters())
local attention = strategies.open(config, mesh, model)
local sft = moonring.objectives.sft { count = "targets" }
local sequence = probe.sequence(input)
local count = sft:count(moonring.tensor(input.labels, "int64"), sequence:lengths())

local ids, positions, targets, plan, layout = attention:cut(sequence, nil, config.shift_attn)
local experts = (config.moe_aux_loss_coef or 0) ~= 0 and model:experts() > 0
-- The load-balancing loss treats all documents as one group.
local groups = experts and { router_groups = ids * 0, router_group_count = 1 } or nil

local function forward()
  local hidden, _, probability, chosen = model:forward(ids, positions, plan, groups)
  local log_prob = moonring.objectives.log_prob(hidden, model:head(), targets,
    { dtype = model:matmul_dtype() })
  local mine = mesh:dp_rank() == 0 and 1 or 0 -- every dp rank has the same sequence: it counts once
  local loss = sft:loss(log_prob, targets) * (mine / math.max(count, 1))
  if experts then
    local router = routers.new { model = model, coefficient = config.moe_aux_loss_coef,
      size = 1 }
    loss = loss + router:loss({ tally = { probability = probability } },
      router:weights(mesh:sum_sp(chosen:to "fp64"))) * mine
  end
  return loss, hidden
end

local loss, hidden = probe.backward(forward, states, loss_scale.of(config))
local result = probe.places(model, mesh, layout, hidden, input.positions)
result.loss = mesh:sum(loss:item()) + 0 -- + 0 turns -0 into 0
result.grad_norm, result.grad_norm_total = states:norms(), 0
local names = {} -- sorted, since the order of pairs() differs between processes
for name in pairs(result.grad_norm) do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(names) do
  result.grad_norm_total = result.grad_norm_total + result.grad_norm[name] ^ 2
end
result.grad_norm_total = math.sqrt(result.grad_norm_total)
if config.grads then model:save_gradients(config.grads, { write = mesh:rank() == 0 }) end
if mesh:rank() == 0 then
  moonring.system.write(config.out, moonring.system.json_encode(result, 1) .. "\n")
  if idle then moonring.terminal.print(idle) end
  moonring.terminal.print(("loss %.7f over %d predictions; %s"):format(result.loss, count,
    config.out))
end
