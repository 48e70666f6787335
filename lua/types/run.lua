---@meta moonring.run

--- The parts of a run out of its configuration, one object of the cores a function.
---@class moonring.run
local run = {}

--- "fp32", "bf16", "pure_bf16" or "fp64", by the keys of those names, which exclude one another.
---@param c moonring.Configuration
---@return "fp32" | "bf16" | "pure_bf16" | "fp64"
function run.precision(c) end

--- What backward makes again.
---@param c moonring.Configuration
---@return "block" | "selective" | "none"
function run.recompute(c) end

--- "cpu" or "cuda": what use_cpu or --device asks for, else what is there.
---@param c moonring.Configuration
---@return "cpu" | "cuda"
function run.device(c) end

--- Settles full_determinism for this process, before anything is computed on the device.
---@param c moonring.Configuration
---@param device "cpu" | "cuda"
---@return string? line for a log, where it is asked for
function run.determinism(c, device) end

--- Where blocks' inputs wait for their backward on a device, by activation_offload
--- (moonring.model.activation_place).
---@param c moonring.Configuration
---@param device "cpu" | "cuda"
---@return "memory" | "host" | "disk" place
---@return string? idle a line for a log where the key moves nothing
function run.activation_place(c, device) end

--- How many ranks to start where nobody says: sequence_parallel_size on CPU, on GPUs the largest multiple of it that they allow.
---@param c moonring.Configuration
---@return integer
function run.ranks(c) end

--- By sequence_parallel_size and ddp_timeout. Collective over all ranks.
---@param c moonring.Configuration
---@return moonring.Mesh
function run.mesh(c) end

--- By sequence_parallel_mode and the keys of its axes.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@param model? moonring.Model its heads settle what is left to be chosen; "auto" needs it
---@return moonring.Attention
function run.attention(c, mesh, model) end

--- Refuses degrees and windows that do not divide sequence_parallel_size.
---@param c moonring.Configuration
function run.check_attention(c) end

---@class moonring.Counts
---@field examples_per_step integer over all dp ranks
---@field steps_per_epoch integer
---@field total_steps integer max_steps where that is above 0
---@field epoch_after fun(epoch: integer, index: integer): number epochs done after step `index` (from 0) of an epoch (from 0)

--- How many steps there are, as the Hugging Face Trainer counts them:
--- batches an epoch = ceil(n / (batch x dp)), steps an epoch = ceil(batches / accumulation).
---@param c moonring.Configuration
---@param examples? integer nil of a stream: max_steps are an epoch then
---@param dp integer `mesh:dp_size()`
---@return moonring.Counts
function run.counts(c, examples, dp) end

--- By seed, data_seed, disable_shuffling and micro_batch_tokens.
---@param c moonring.Configuration
---@param dataset moonring.Dataset
---@param mesh moonring.Mesh
---@param counts moonring.Counts
---@return moonring.Steps
function run.steps(c, dataset, mesh, counts) end

--- Tokens that one sp group puts through one forward, in training and in evaluation.
---@param c moonring.Configuration
---@return integer
function run.micro_batch_tokens(c) end

--- One epoch over a data set, in the micro-batches that training's first epoch, or an evaluation, makes of it.
---@param c moonring.Configuration
---@param dataset moonring.Dataset
---@param mesh moonring.Mesh
---@param split "train" | "eval"
---@return moonring.Steps
function run.epoch(c, dataset, mesh, split) end

--- Examples over which a step's loss has a term of its own (KTO's KL term, the balance of routers); nil where there is none.
---@param c moonring.Configuration
---@param dp integer
---@return integer?
function run.group(c, dp) end

--- A function that says whether it is time to evaluate or to save after a step.
---@param c moonring.Configuration
---@param what "eval" | "save"
---@param counts moonring.Counts
---@return fun(k: integer, step: moonring.Step): boolean
function run.due(c, what, counts) end

--- The signal by which any rank was asked to save or to end, or "cancelled" by whoever embeds this,
--- at the border of a step. Collective over all ranks.
---@param mesh moonring.Mesh
---@return "SIGTERM" | "SIGINT" | "SIGHUP" | "SIGUSR1" | "cancelled" | nil
function run.preempted(mesh) end

--- The checkpoints of a run, by save_total_limit and metric_for_best_model.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@param save fun(folder: string): string[] writes one, on every rank; returns the names of this rank's own files
---@param say fun(line: string)
---@return moonring.Checkpoints
function run.checkpoints(c, mesh, save, say) end

--- By zero_stage, zero_group, offload_optimizer and offload_dir. Collective over all ranks.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@return moonring.Zero
function run.zero(c, mesh) end

--- The states of what is to learn; matrices are held in bf16 with bf16. Collective over all ranks.
---@param c moonring.Configuration
---@param zero moonring.Zero
---@param parameters moonring.Parameters
---@return moonring.States
function run.states(c, zero, parameters) end

--- By optim, weight_decay and AdamW's keys.
---@param c moonring.Configuration
---@param parameters moonring.Parameters the states'
---@param zero? moonring.Zero whose memory the optimizer's state takes
---@return moonring.Optimizer
function run.optimizer(c, parameters, zero) end

--- By lr_scheduler_type, learning_rate, warmup_ratio and warmup_steps.
---@param c moonring.Configuration
---@param total_steps integer
---@return moonring.Schedule
function run.schedule(c, total_steps) end

return run
