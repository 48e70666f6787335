--- What a run is made of, out of its configuration: mesh, model, data, optimizer, and the counts that follow from them.
-- Each function takes the table of config.lua and returns one object of the cores; train.lua joins them.
local attention = require "moonring.native.attention"
local comm = require "moonring.native.comm"
local config = require "moonring.config"
local data = require "moonring.native.data"
local model = require "moonring.native.model"
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

--- cpu or cuda: what the command line or use_cpu asks for, else what is there.
function run.device(c)
  local asked = system.requested_device()
  if c.use_cpu and asked == "cuda" then config.fail "use_cpu and --device cuda exclude one another" end
  return model.device(c.use_cpu and "cpu" or asked)
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
  local machine, sp = tonumber(os.getenv "LOCAL_WORLD_SIZE") or 0, c.sequence_parallel_size
  return {
    strategy = c.sequence_parallel_mode,
    ulysses_degree = c.sequence_parallel_ulysses_degree,
    ring_degree = c.sequence_parallel_ring_degree,
    placement = c.placement,
    double_ring_window = c.double_ring_window,
    ranks_per_machine = machine < sp and machine > 0 and sp % machine == 0 and machine or 0,
    heads = heads, kv_heads = kv_heads, head_dim = head_dim,
    dtype = model and model:matmul_dtype(),
  }
end

function run.attention(c, mesh, model)
  local options = strategy(c, model)
  options.mesh, options.device = mesh, run.device(c)
  return attention.create(options)
end

function run.model(c, checkpoint)
  return model.load(checkpoint, {
    precision = run.precision(c),
    recompute = c.disable_gradient_checkpointing and "none" or c.recompute,
    device = run.device(c),
  })
end

function run.dataset(c, tokenizer)
  return data.load {
    names = c.dataset,
    dir = c.dataset_dir,
    template = c.template or "default",
    default_system = c.default_system,
    tokenizer = tokenizer,
    cutoff_len = c.cutoff_len,
    max_samples = c.max_samples,
    train_on_prompt = c.train_on_prompt,
    mask_history = c.mask_history,
    overlong = c.overlong,
  }
end

--- How many steps there are and how far each one is, as the Hugging Face Trainer counts them.
--   batches an epoch = ceil(n / (batch x dp)), steps an epoch = ceil(batches / accumulation)
function run.counts(c, examples, dp)
  local batches = math.ceil(examples / (c.per_device_train_batch_size * dp))
  local steps = math.ceil(batches / c.gradient_accumulation_steps)
  return {
    examples_per_step = c.per_device_train_batch_size * c.gradient_accumulation_steps * dp,
    steps_per_epoch = steps,
    total_steps = c.max_steps > 0 and c.max_steps or math.ceil(c.num_train_epochs * steps),
    --- Epochs done after step `index` (0-based) of epoch `epoch`.
    epoch_after = function(epoch, index) return epoch + math.min((index + 1) * c.gradient_accumulation_steps, batches) / batches end,
  }
end

function run.steps(c, dataset, mesh, counts)
  return dataset:steps {
    mesh = mesh,
    batch = counts.examples_per_step,
    seed = c.data_seed or c.seed,
    shuffle = not c.disable_shuffling,
    total_steps = counts.total_steps,
    micro_batch_tokens = c.micro_batch_tokens or c.cutoff_len * c.per_device_train_batch_size,
  }
end

function run.optimizer(c, parameters)
  if c.optim == "sgd" then return trainer.sgd(parameters, { weight_decay = c.weight_decay }) end
  return trainer.adamw(parameters, { beta1 = c.adam_beta1, beta2 = c.adam_beta2, epsilon = c.adam_epsilon, weight_decay = c.weight_decay })
end

function run.schedule(c, total_steps)
  return trainer.schedule {
    kind = c.lr_scheduler_type,
    learning_rate = c.learning_rate,
    warmup_ratio = c.warmup_ratio,
    warmup_steps = c.warmup_steps,
    total_steps = total_steps,
  }
end

--- Refuses degrees and windows that do not divide, before any rank is started.
function run.check_attention(c)
  local options = strategy(c)
  options.ranks = c.sequence_parallel_size
  local ok, why = pcall(attention.resolve, options)
  if not ok then config.fail("sequence_parallel_mode: ", c.sequence_parallel_mode, ": ", (tostring(why):gsub("^.*INVALID_ARGUMENT: ", ""))) end
end

--- Refuses what cannot be trained, before anything is loaded.
function run.check(c)
  config.require_keys(c, { "model_name_or_path", "dataset", "output_dir" })
  if c.stage ~= "sft" then config.fail("not supported yet: stage: ", c.stage) end
  if c.finetuning_type ~= "full" then
    config.fail("not supported yet: finetuning_type: ", c.finetuning_type, c.given.finetuning_type == nil and " (the default; say finetuning_type: full)" or "")
  end
  if c.train_on_prompt and c.mask_history then config.fail "train_on_prompt and mask_history exclude one another" end
  for name, least in pairs { sequence_parallel_size = 1, per_device_train_batch_size = 1, gradient_accumulation_steps = 1, logging_steps = 1, cutoff_len = 1 } do
    if c[name] < least then config.fail(name, ": wanted at least ", least, ", got ", c[name]) end
  end
  for _, name in ipairs { "num_train_epochs", "learning_rate", "max_grad_norm", "ddp_timeout" } do
    if not (c[name] >= 0) then config.fail(name, ": wanted 0 or more, got ", c[name]) end
  end
  if c.micro_batch_tokens and c.micro_batch_tokens < 1 then config.fail("micro_batch_tokens: wanted at least 1, got ", c.micro_batch_tokens) end
  run.precision(c)
  run.check_attention(c)
  if system.exists(c.output_dir) and not system.is_folder(c.output_dir) then config.fail("output_dir: ", c.output_dir, " is a file, wanted a folder") end
  if #system.list(c.output_dir) > 0 and not c.overwrite_output_dir then
    config.fail("output_dir: ", c.output_dir, " is not empty; overwrite_output_dir: true writes into it")
  end
  system.make_folder(c.output_dir)
end

return run
