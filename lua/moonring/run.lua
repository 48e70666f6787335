--- What a run is made of, out of its configuration: mesh, model, data, optimizer, and the counts that follow from them.
-- Each function takes the table of config.lua and returns one object of the cores; train.lua joins them.
local attention = require "moonring.native.attention"
local checkpoints = require "moonring.checkpoints"
local comm = require "moonring.native.comm"
local config = require "moonring.config"
local data = require "moonring.native.data"
local model = require "moonring.native.model"
local objective = require "moonring.objective"
local reference = require "moonring.reference"
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

-- Options of a model in memory that every kind of it takes.
local function placement(c)
  return { precision = run.precision(c), recompute = c.disable_gradient_checkpointing and "none" or c.recompute, device = run.device(c) }
end

-- Which adapters are merged into the weights, and which one goes on learning.
local function adapters(c)
  local merged, resumed = {}, nil
  for _, path in ipairs(c.adapter_name_or_path or {}) do merged[#merged + 1] = path end
  if c.finetuning_type == "lora" and not c.create_new_adapter then resumed = table.remove(merged) end
  return merged, resumed
end

local function with_adapter(c, base, resumed)
  if resumed then return model.adapt(base, { path = resumed, dropout = run.drops(c) and c.lora_dropout or 0 }) end
  return model.adapt(base, {
    rank = c.lora_rank, alpha = c.lora_alpha or 2 * c.lora_rank, dropout = run.drops(c) and c.lora_dropout or 0, target = c.lora_target == "all" and { "all" } or c.lora_target,
    additional_target = c.additional_target, use_rslora = c.use_rslora, use_dora = c.use_dora, seed = c.seed,
  })
end

--- Whether dropout acts: not in stages dpo and kto, where LLaMA-Factory turns it off so that policy and reference begin equal.
function run.drops(c) return c.stage ~= "dpo" and c.stage ~= "kto" end

--- A model to look at or to talk with: every adapter is merged.
function run.model(c, checkpoint)
  local options = placement(c)
  options.adapters = c.adapter_name_or_path
  return model.load(checkpoint, options)
end

--- The model with what of it is to learn: all weights, an adapter's, or some layers'.
function run.learner(c, checkpoint)
  local options, resumed = placement(c), nil
  options.adapters, resumed = adapters(c)
  if c.finetuning_type == "lora" then
    options.frozen = true
    return with_adapter(c, model.load(checkpoint, options), resumed)
  end
  if c.finetuning_type == "freeze" then
    options.trainable_layers, options.extra_modules = c.freeze_trainable_layers, c.freeze_extra_modules
    options.trainable_modules = c.freeze_trainable_modules == "all" and { "all" } or c.freeze_trainable_modules
  end
  return model.load(checkpoint, options)
end

--- The learner as a checkpoint of this run has it, to answer and to save.
function run.reload(c, learner, folder)
  if c.finetuning_type == "lora" then return model.adapt(learner:base(), { path = folder }) end
  local options = placement(c)
  return model.load(model.open(folder), options)
end

-- A model that only answers: ref_model, or the model itself as it was before training.
local function frozen_reference(c, checkpoint)
  local options = placement(c)
  options.frozen = true
  if not c.ref_model then
    options.adapters = adapters(c)
    return model.load(checkpoint, options)
  end
  local other = model.open(c.ref_model)
  if other:vocab_size() ~= checkpoint:vocab_size() then
    config.fail("ref_model: ", c.ref_model, " has a vocabulary of ", other:vocab_size(), " ids, the model ", checkpoint:vocab_size())
  end
  options.adapters = c.ref_model_adapters
  return model.load(other, options)
end

-- A function that gives the reference model; called once, before the first step. LoRA's is the model without its adapter; where the numbers are
-- precomputed, the model itself before it learns.
local function reference_model(c, checkpoint, learner)
  if not c.ref_model and c.finetuning_type == "lora" then return learner:base() end
  if not c.ref_model and c.precompute_ref_log_probs then return learner end
  return frozen_reference(c, checkpoint)
end

--- The reference of a data set (moonring.reference): live, or precomputed into output_dir. `parts`: checkpoint, learner, attention, mesh, datasets = { train, eval }.
-- Returns a list by data set; every rank must call it.
function run.references(c, parts)
  local of = reference_model(c, parts.checkpoint, parts.learner)
  local found = {}
  if not c.precompute_ref_log_probs then
    for name in pairs(parts.datasets) do found[name] = reference.live(of) end
    return found
  end
  local digest = of:digest()
  for _, name in ipairs { "train", "eval" } do
    local dataset = parts.datasets[name]
    found[name] = dataset and reference.precomputed {
      path = c.output_dir .. (name == "train" and "/reference_log_probs.json" or "/reference_log_probs.eval.json"),
      key = { data = dataset:digest(), template = c.template or "default", cutoff_len = c.cutoff_len, reference = digest, precision = run.precision(c), stage = c.stage,
        pref_loss = c.stage == "dpo" and c.pref_loss or "none", ld_alpha = c.ld_alpha or "none" },
      overwrite = c.overwrite_cache, make_model = function() return of end, dataset = dataset, attention = parts.attention, mesh = parts.mesh,
      make_steps = function() return run.epoch(c, dataset, parts.mesh, name) end, documents = 2,
    }
  end
  return found
end

--- What the stage counts and sums.
function run.objective(c, learner)
  if c.stage == "dpo" then
    return objective.preference { loss = c.pref_loss, beta = c.pref_beta, ftx = c.pref_ftx, simpo_gamma = c.simpo_gamma, label_smoothing = c.dpo_label_smoothing,
      bco_weight = c.pref_bco_weight, ld_alpha = c.ld_alpha }
  elseif c.stage == "kto" then
    return objective.kto { beta = c.pref_beta, chosen_weight = c.kto_chosen_weight, rejected_weight = c.kto_rejected_weight, ftx = c.pref_ftx }
  elseif c.stage == "rm" then
    return objective.reward { value_head = learner:value_head { seed = c.seed } }
  end
  return objective.sft { count = c.count, label_smoothing = c.label_smoothing_factor > 0 and c.label_smoothing_factor or nil, dft = c.use_dft_loss, eaft = c.use_eaft_loss,
    eaft_alpha = c.eaft_alpha }
end

-- Named data sets as the stage wants them.
local function load_datasets(c, names, tokenizer, val_size)
  return data.load {
    names = names,
    stage = c.stage,
    dir = c.dataset_dir,
    template = c.template or "default",
    default_system = c.default_system,
    tokenizer = tokenizer,
    cutoff_len = c.cutoff_len,
    max_samples = c.max_samples,
    train_on_prompt = c.train_on_prompt,
    mask_history = c.mask_history,
    overlong = c.overlong,
    packing = c.packing,
    preprocessing_batch_size = c.preprocessing_batch_size,
    val_size = val_size,
    seed = c.seed,
  }
end

--- The data set to learn from.
function run.dataset(c, tokenizer) return load_datasets(c, c.dataset, tokenizer) end

--- The data set to learn from, and the one to evaluate on, or nil: eval_dataset, or what val_size holds out.
function run.datasets(c, tokenizer)
  local train, held_out = load_datasets(c, c.dataset, tokenizer, c.val_size)
  if c.eval_dataset then held_out = load_datasets(c, c.eval_dataset, tokenizer) end
  return train, held_out
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

--- Tokens that one sp group puts through one forward: micro_batch_tokens, else cutoff_len x the batch size of "train" or "eval".
function run.micro_batch_tokens(c, split)
  return c.micro_batch_tokens or c.cutoff_len * c["per_device_" .. split .. "_batch_size"]
end

function run.steps(c, dataset, mesh, counts)
  return dataset:steps {
    mesh = mesh,
    batch = counts.examples_per_step,
    seed = c.data_seed or c.seed,
    shuffle = not c.disable_shuffling,
    total_steps = counts.total_steps,
    micro_batch_tokens = run.micro_batch_tokens(c, "train"),
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
  return dataset:steps { mesh = mesh, batch = batch, shuffle = false, total_steps = math.ceil(dataset:size() / batch), micro_batch_tokens = run.micro_batch_tokens(c, "eval") }
end

--- A function that says whether it is time to evaluate ("eval") or to save ("save") after step k.
function run.due(c, what, counts)
  local strategy = c[what .. "_strategy"]
  local every = checkpoints.interval(c[what .. "_steps"] or c.logging_steps, counts.total_steps)
  return function(k, step)
    if strategy == "epoch" then return step:index() + 1 == counts.steps_per_epoch or (what == "save" and k == counts.total_steps) end
    return strategy == "steps" and (k % every == 0 or (what == "save" and k == counts.total_steps))
  end
end

--- The checkpoints of a run. `save`: a function that writes the model to a folder.
function run.checkpoints(c, mesh, save)
  local judges = c.load_best_model_at_end or c.metric_for_best_model or c.early_stopping_steps
  return checkpoints.new { dir = c.output_dir, limit = c.save_total_limit, mesh = mesh, save = save, metric = judges and (c.metric_for_best_model or "loss"),
    greater = c.greater_is_better }
end

--- Seed and strength of what is random in training, or nil where nothing is.
function run.noise(c)
  local drops = run.drops(c) and (c.lora_dropout > 0 and c.finetuning_type == "lora" or c.stage == "rm")
  if not drops and not c.neftune_noise_alpha then return nil end
  return { seed = c.seed, neftune_alpha = c.neftune_noise_alpha }
end

--- Clips the gradient; where its norm is not finite, ends the run naming the step's examples.
function run.clip(c, weights, step, k)
  local ok, norm = pcall(trainer.clip_gradients, weights, { max_norm = c.max_grad_norm })
  if ok then return norm end
  local examples = step:examples()
  local more = #examples > 8 and ", ..." or ""
  error(("%s; step %d, examples %s%s of the data set (counted from 0); stopped before the update"):format(tostring(norm), k, table.concat(examples, ", ", 1, math.min(#examples, 8)), more), 0)
end

function run.optimizer(c, parameters)
  local shared = { weight_decay = c.weight_decay, loraplus_lr_ratio = c.loraplus_lr_ratio }
  if c.optim == "sgd" then return trainer.sgd(parameters, shared) end
  shared.beta1, shared.beta2, shared.epsilon = c.adam_beta1, c.adam_beta2, c.adam_epsilon
  return trainer.adamw(parameters, shared)
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

return run
