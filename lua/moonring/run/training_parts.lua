--- Creates the components that train: the objective, the engine, the optimizer and its schedule,
-- the steps of the data, and the updates.
local block_turns = require "moonring.choices.block_turns"
local batching = require "moonring.choices.batching"
local engine = require "moonring.run.engine"
local errors = require "moonring.base.errors"
local example_order = require "moonring.run.example_order"
local fitting = require "moonring.run.fitting"
local loss_scale = require "moonring.run.loss_scale"
local noise = require "moonring.run.noise"
local optimizers = require "moonring.choices.optimizers"
local origins = require "moonring.run.checkpoint.origins"
local custom_micro_batches = require "moonring.run.custom_micro_batches"
local reference_checks = require "moonring.run.reference_checks"
local reference_models = require "moonring.run.reference_models"
local rollouts = require "moonring.run.rollouts"
local rollout_settings = require "moonring.choices.rollout_settings"
local rounds = require "moonring.choices.rounds"
local router = require "moonring.run.router"
local run_rewards = require "moonring.run.run_rewards"
local schedules = require "moonring.choices.schedules"
local shown_weights = require "moonring.run.checkpoint.shown_weights"
local stages = require "moonring.choices.stages"
local system = require "moonring.native.system"
local updates = require "moonring.run.updates"

---@class moonring.training_parts
local training_parts = {}

-- Creates the objective, and the engine that computes its gradients.
local function open_engine(run)
  local c, mesh = run.config, run.mesh
  run.objective = stages.objective(c, run.model)
  rounds.check_objective(c, run.objective)
  reference_checks.objective(c, run.objective)
  if c.shift_attn and run.objective.needs_reference then
    errors.fail("shift_attn: the objective compares with a reference model, which sees whole ",
      "documents: expected one without")
  end
  run.engine = engine.new { mesh = mesh, model = run.model, attention = run.attention,
    objective = run.objective, group = c.per_device_train_batch_size * mesh:dp_size(),
    noise = noise.of(c), router = router.of(c, run.model), shifted = c.shift_attn,
    apart = rounds.wanted(c) }
  run.states = optimizers.states(c, run.zero, run.engine.parameters)
  run.engine.states = run.states
end

-- Computes fingerprints of the models' files on rank 0. If a model has changed since the
-- checkpoint, all ranks refuse to resume.
local function check_origins(run)
  local changes
  if run.mesh:rank() == 0 then
    run.origins = origins.of(run.config, run.checkpoint, run.objective)
    changes = run.resumed and origins.changes(run.resumed.origins, run.origins) or {}
  end
  local text = run.mesh:gather(changes and system.json_encode({ changes = changes }) or "")[1]
  if run.resumed then run.resumed:check_origins(system.json_decode(text).changes) end
end

local function open_optimizer(run)
  local c = run.config
  local function optimizer_of(parameters)
    return optimizers.open(c, parameters, run.checkpoint:facts(), run.zero, run.model)
  end
  if optimizers.turns(c) then
    run.turns = block_turns.new(c, run.engine.parameters, run.states:parameters(), optimizer_of)
    run.optimizer = run.turns:begin(run.resumed and run.resumed.step or 1)
  else
    run.optimizer = optimizer_of(run.states:parameters())
  end
  run.schedule = schedules.open(c, run.counts.total_steps)
  if not run.resumed then run.schedule:at(0) end -- refuses one that returns no rate
end

--- Opens the objective's reference model for each data set. With precompute_ref_log_probs this
--- computes and writes its log-probs. Collective over all ranks.
---@param run moonring.Run after `open`
function training_parts.references(run)
  run.references = {}
  if run.objective.needs_reference then
    local sets = { train = run.data }
    for _, one in ipairs(run.evals or {}) do sets[one.key] = one.dataset end
    run.references = reference_models.open(run.config, { checkpoint = run.checkpoint,
      policy = run.model, attention = run.attention, mesh = run.mesh, zero = run.zero,
      progress = run.progress,
      datasets = sets })
  end
  run.reference = run.references.train
  run.engine.reference = run.reference
end

local function open_steps(run, say)
  local c, mesh = run.config, run.mesh
  run.batches = batching.steps(c, run.data, mesh, run.counts)
  if rollout_settings.wanted(c) then
    run.rewards = not run.own.rollout and run_rewards.open(run) or nil
    run.rollouts = rollouts.new(run, run.batches)
    run.batches, run.engine.ledger = run.rollouts, run.rollouts
  end
  if run.own.micro_batches then
    run.batches = custom_micro_batches(run.batches, run.own.micro_batches, mesh,
      batching.micro_batch_tokens(c))
  end
  if c.auto_find_batch_size then run.batches = fitting.new(run.batches, c, mesh, say) end
end

--- Creates all components that train, except the references. Writes nothing. Collective over all
--- ranks.
---@param run moonring.Run with mesh, model, data and attention
function training_parts.open(run)
  local c, mesh = run.config, run.mesh
  local function say(line) run.log:say(line) end -- run.log is opened later
  run.counts = batching.of(c, run.data:size(), mesh:dp_size())
  if run.own.order then example_order.settle(run.own.order, run.data, mesh, run.counts) end
  run.group = stages.of(c).group(c, mesh:dp_size())
  if run.resumed then
    run.resumed:check(run:data_digest(), run.counts.examples_per_step, run.group)
  end
  open_engine(run)
  check_origins(run)
  open_optimizer(run)
  open_steps(run, say)
  run.loss_scale = loss_scale.of(c)
  run.rounds = rounds.open(c, { mesh = mesh, states = run.states,
    total = run.counts.total_steps })
  run.shown = shown_weights.new { states = run.states, optimizer = run.optimizer,
    rounds = run.rounds }
  run.updates = updates.new(c, { engine = run.engine, states = run.states, shown = run.shown,
    rounds = run.rounds, optimizer = run.optimizer, say = say, loss_scale = run.loss_scale })
end

return training_parts
