--- What a run is made of, out of its configuration: mesh, attention, optimizer, steps, and the counts that follow from them. (Data sets: datasets.lua; models:
-- models.lua; what is learnt of them: stages.lua.)
-- Each function takes the table of config.lua and returns one object of the cores; train.lua joins them.
local attention = require "moonring.native.attention"
local checkpoints = require "moonring.run.checkpoints"
local comm = require "moonring.native.comm"
local config = require "moonring.config"
local machine = require "moonring.plan.machine"
local model = require "moonring.model"
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"

local run = {}

--- fp32 | bf16 | pure_bf16 | fp64, as a model takes it.
function run.precision(c)
  local chosen = {}
  for _, name in ipairs { "bf16", "pure_bf16", "fp64" } do
    if c[name] then chosen[#chosen + 1] = name end
  end
  if #chosen > 1 then config.fail(table.concat(chosen, " and "), " exclude one another") end
  return chosen[1] or "fp32"
end

--- What backward makes again: block | selective | none. With auto this is what layers do that have no room to keep more (recompute.lua).
function run.recompute(c) return c.disable_gradient_checkpointing and "none" or (c.recompute == "auto" and "block") or c.recompute end

--- cpu or cuda: what the command line or use_cpu asks for, else what is there.
function run.device(c)
  local asked = system.requested_device()
  if c.use_cpu and asked == "cuda" then config.fail "use_cpu and --device cuda exclude one another" end
  return model.device(c.use_cpu and "cpu" or asked)
end

--- Where blocks' inputs wait for their backward on a device ("memory", "host" or "disk"), and a
-- line for a log where activation_offload moves nothing. Ends the run where it asks for what cannot
-- be.
function run.activation_place(c, device)
  local ok, place = pcall(model.activation_place, c.activation_offload, device)
  if not ok then config.fail((tostring(place):gsub("^.*INVALID_ARGUMENT: ", ""))) end
  local idle = c.activation_offload and place == "memory"
  return place, idle and "activation_offload: cpu moves nothing on the CPU, where blocks' inputs "
    .. "are in the host's memory anyway; disk would put them into files" or nil
end

--- Settles full_determinism for this process, before anything is computed on `device`; gives a line for a log where it is asked for, else nil.
function run.determinism(c, device)
  trainer.deterministic(c.full_determinism and device ~= "cpu")
  if not c.full_determinism then return nil end
  return device == "cpu" and "full_determinism changes nothing: on the CPU runs repeat bit for bit anyway"
    or "full_determinism: kernels that give the same bits each time; attention's backward takes more time for it"
end

--- How many ranks to start where nobody says: sequence_parallel_size on CPU, on GPUs the largest multiple of it that they allow.
function run.ranks(c)
  local sp = c.sequence_parallel_size
  if sp < 1 or run.device(c) == "cpu" then return sp end
  return math.max(1, math.floor(model.gpus() / sp)) * sp
end

function run.mesh(c) return comm.mesh { sp = c.sequence_parallel_size, deadline = c.ddp_timeout, device = run.device(c) } end

--- What the keys say of the strategy. `model`, where there is one, tells its heads; they settle what is left to be chosen.
local function strategy(c, model)
  local heads, kv_heads, head_dim
  if model then heads, kv_heads, head_dim = model:heads() end
  -- Ranks of an sp group that share a machine, where several machines share a group in equal parts.
  local ranks, sp = machine.local_ranks() or 0, c.sequence_parallel_size
  return {
    strategy = c.sequence_parallel_mode,
    ulysses_degree = c.sequence_parallel_ulysses_degree,
    ring_degree = c.sequence_parallel_ring_degree,
    placement = c.placement,
    double_ring_window = c.double_ring_window,
    ranks_per_machine = ranks < sp and ranks > 0 and sp % ranks == 0 and ranks or 0,
    heads = heads, kv_heads = kv_heads, head_dim = head_dim,
    dtype = model and model:matmul_dtype(),
  }
end

function run.attention(c, mesh, model)
  local options = strategy(c, model)
  options.mesh, options.device = mesh, run.device(c)
  return attention.create(options)
end

-- Of a stream, whose examples nobody has counted: max_steps are an epoch to the Hugging Face Trainer, and each pass over the rows begins a new one.
local function stream_counts(c, dp)
  return {
    examples_per_step = c.per_device_train_batch_size * c.gradient_accumulation_steps * dp,
    steps_per_epoch = c.max_steps,
    total_steps = c.max_steps,
    epoch_after = function(epoch, index) return epoch + (index + 1) / c.max_steps end,
  }
end

--- How many steps there are and how far each one is, as the Hugging Face Trainer counts them.
--   batches an epoch = ceil(n / (batch x dp)), with dataloader_drop_last the whole ones; steps an epoch = ceil(batches / accumulation)
-- `examples` is nil of a stream.
function run.counts(c, examples, dp)
  if not examples then return stream_counts(c, dp) end
  local batches = math.ceil(examples / (c.per_device_train_batch_size * dp))
  if c.dataloader_drop_last then batches = math.max(math.floor(examples / (c.per_device_train_batch_size * dp)), 1) end
  local steps = math.ceil(batches / c.gradient_accumulation_steps)
  return {
    examples_per_step = c.per_device_train_batch_size * c.gradient_accumulation_steps * dp,
    steps_per_epoch = steps,
    total_steps = c.max_steps > 0 and c.max_steps or math.ceil(c.num_train_epochs * steps),
    --- Epochs done after step `index` (0-based) of epoch `epoch`.
    epoch_after = function(epoch, index) return epoch + math.min((index + 1) * c.gradient_accumulation_steps, batches) / batches end,
  }
end

--- Tokens that one sp group puts through one forward, in training and in evaluation.
function run.micro_batch_tokens(c) return c.micro_batch_tokens or c.cutoff_len * c.per_device_train_batch_size end

function run.steps(c, dataset, mesh, counts)
  if c.streaming then
    return dataset:steps { mesh = mesh, batch = c.per_device_train_batch_size, batches = c.gradient_accumulation_steps * mesh:dp_size(), total_steps = counts.total_steps,
      micro_batch_tokens = run.micro_batch_tokens(c) }
  end
  return dataset:steps {
    drop_last = c.dataloader_drop_last and c.per_device_train_batch_size * mesh:dp_size() or nil,
    mesh = mesh,
    batch = counts.examples_per_step,
    seed = c.data_seed or c.seed,
    shuffle = not c.disable_shuffling,
    total_steps = counts.total_steps,
    micro_batch_tokens = run.micro_batch_tokens(c),
  }
end

--- One epoch over a data set, in the micro-batches that training's first epoch ("train") or an evaluation ("eval") makes of it.
function run.epoch(c, dataset, mesh, split)
  if split == "train" then
    local counts = run.counts(c, dataset:size(), mesh:dp_size())
    counts.total_steps = counts.steps_per_epoch
    return run.steps(c, dataset, mesh, counts)
  end
  local batch = c.per_device_eval_batch_size * mesh:dp_size()
  return dataset:steps { mesh = mesh, batch = batch, shuffle = false, total_steps = math.ceil(dataset:size() / batch), micro_batch_tokens = run.micro_batch_tokens(c) }
end

--- Examples over which a step's loss has a term of its own, which is no sum over examples: KTO's KL term, the balance of routers. nil where there is none: how a step is cut into
-- batches then settles no number.
function run.group(c, dp)
  if c.stage == "kto" then return c.per_device_train_batch_size * dp end
  return (c.moe_aux_loss_coef or 0) ~= 0 and (c.stage == "pt" or c.stage == "sft") and c.per_device_train_batch_size or nil
end

--- A function that says whether it is time to evaluate ("eval") or to save ("save") after step k. (save_strategy best: where an evaluation is.)
function run.due(c, what, counts)
  local strategy = c[what .. "_strategy"]
  local every = checkpoints.interval(c[what .. "_steps"] or c.logging_steps, counts.total_steps)
  return function(k, step)
    if strategy == "epoch" then return step:last() or ((what == "save" or c.streaming) and k == counts.total_steps) end
    return strategy == "steps" and (k % every == 0 or (what == "save" and k == counts.total_steps))
  end
end

-- The later one counts where ranks were asked for several.
local WISHES = { "SIGUSR1", "SIGHUP", "SIGINT", "SIGTERM", "cancelled" }

--- The signal by which any rank was asked to save (SIGUSR1) or to save and end, or "cancelled" by
-- whoever embeds this, or nil. Every rank must call it, at the border of a step.
function run.preempted(mesh)
  local asked, wish = system.preemption(), 0
  for i, name in ipairs(WISHES) do
    if name == asked then wish = i end
  end
  if mesh:size() > 1 then wish = mesh:max(wish) end
  return WISHES[wish]
end

--- The checkpoints of a run. `save`: a function that writes one to a folder and returns the names of this rank's own files; `say`: a function that logs a line.
function run.checkpoints(c, mesh, save, say)
  local judges = c.load_best_model_at_end or c.metric_for_best_model or c.early_stopping_steps or c.save_strategy == "best"
  return checkpoints.new { dir = c.output_dir, limit = c.save_total_limit, mesh = mesh, save = save, say = say, metric = judges and (c.metric_for_best_model or "loss") or nil,
    greater = c.greater_is_better }
end

--- How the states of the run are sharded over ranks. Every rank must call it.
function run.zero(c, mesh)
  return trainer.zero { mesh = mesh, stage = c.zero_stage, group = c.zero_group, ranks_per_machine = machine.local_ranks(),
    offload = c.offload_optimizer, folder = c.offload_optimizer == "disk" and (c.offload_dir or c.output_dir) or nil }
end

--- The states of what is to learn: its shards on this rank. Every rank must call it.
function run.states(c, zero, parameters) return zero:states(parameters, { held = run.precision(c) == "bf16" and "bf16" or nil }) end

--- `zero`: whose memory the optimizer's state takes.
function run.optimizer(c, parameters, zero)
  local shared = { weight_decay = c.weight_decay, loraplus_lr_ratio = c.loraplus_lr_ratio }
  if c.optim == "sgd" then return trainer.sgd(parameters, shared) end
  shared.beta1, shared.beta2, shared.epsilon = c.adam_beta1, c.adam_beta2, c.adam_epsilon
  shared.zero = zero
  return trainer.adamw(parameters, shared)
end

-- lr_scheduler_kwargs: YAML's own table, or the same as JSON text.
local function schedule_options(c)
  local given = c.lr_scheduler_kwargs or {}
  if type(given) == "string" then given = system.yaml_decode(given, "lr_scheduler_kwargs") end
  if type(given) ~= "table" or #given > 0 then config.fail("lr_scheduler_kwargs: wanted options by name, got ", tostring(c.lr_scheduler_kwargs)) end
  local options = {}
  for name, value in pairs(given) do
    if value ~= system.null then options[name] = tonumber(value) or value end
  end
  return options
end

function run.schedule(c, total_steps)
  local options = schedule_options(c)
  options.kind, options.learning_rate, options.total_steps = c.lr_scheduler_type, c.learning_rate, total_steps
  options.warmup_ratio, options.warmup_steps = c.warmup_ratio, c.warmup_steps
  return trainer.schedule(options)
end

--- Refuses degrees and windows that do not divide, before any rank is started.
function run.check_attention(c)
  local options = strategy(c)
  options.ranks = c.sequence_parallel_size
  local ok, why = pcall(attention.resolve, options)
  if not ok then config.fail("sequence_parallel_mode: ", c.sequence_parallel_mode, ": ", (tostring(why):gsub("^.*INVALID_ARGUMENT: ", ""))) end
end

return run
