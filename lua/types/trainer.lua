---@meta moonring.native.trainer

--- Optimizers, learning rate schedules, gradients, ZeRO sharding, checkpoints, and the logs that a
--- run writes.
---@class moonring.trainer
local trainer = {}

---@class moonring.AdamWOptions
---@field beta1? number default 0.9
---@field beta2? number default 0.999
---@field epsilon? number default 1e-8
---@field weight_decay? number decoupled weight decay (arXiv:1711.05101), not applied to biases and
---   norms; default 0
--- the run's ZeRO, which decides where the state is stored if it is offloaded to disk; default:
--- next to the weights
---@field zero? moonring.Zero
--- factor of the learning rate of lora_B and one-dimensional parameters (LoRA+, arXiv 2402.12354);
--- default 1
---@field loraplus_lr_ratio? number
---@field state? "fp32" | "bf16" | "8bit" format of m and v between steps; default "fp32"
---@field full_embeddings? boolean whether m and v of embeddings are fp32 whatever `state` says

--- AdamW as in torch.optim.AdamW. The state is fp32 (fp64 for fp64 weights): 8 bytes for each
--- parameter, allocated at its first step.
---@param list moonring.Parameters
---@param options? moonring.AdamWOptions
---@return moonring.Optimizer
function trainer.adamw(list, options) end

---@class moonring.SgdOptions
---@field weight_decay? number decoupled weight decay; default 0
---@field loraplus_lr_ratio? number as in AdamWOptions; default 1

--- Plain gradient descent: w <- w (1 - lr decay) - lr g. No momentum, no state.
---@param list moonring.Parameters
---@param options? moonring.SgdOptions
---@return moonring.Optimizer
function trainer.sgd(list, options) end

--- Options that all of the following optimizers accept. Their state has the gradient's dtype: fp32,
--- or fp64 for fp64 weights.
---@class moonring.NativeRuleOptions
---@field zero? moonring.Zero ZeRO by which the parameters are sharded; default: not sharded
---@field loraplus_lr_ratio? number as in AdamWOptions; default 1
---@field weight_decay? number not applied to biases and norms; default 0

---@class moonring.SgdMomentumOptions: moonring.NativeRuleOptions
---@field momentum? number default 0.9
---@field dampening? number default 0
---@field nesterov? boolean not together with dampening; default false

--- Gradient descent with momentum, as in torch.optim.SGD; weight decay is added to the gradient.
--- State: 4 bytes for each parameter.
---@param list moonring.Parameters
---@param options? moonring.SgdMomentumOptions
---@return moonring.Optimizer
function trainer.sgd_momentum(list, options) end

---@class moonring.AdagradOptions: moonring.NativeRuleOptions
---@field lr_decay? number default 0
---@field initial? number initial value of the sum of squares; default 0
---@field epsilon? number default 1e-10

--- Adagrad, as in torch.optim.Adagrad; weight decay is added to the gradient. State: 4 bytes for
--- each parameter.
---@param list moonring.Parameters
---@param options? moonring.AdagradOptions
---@return moonring.Optimizer
function trainer.adagrad(list, options) end

---@class moonring.RmspropOptions: moonring.NativeRuleOptions
---@field alpha? number decay rate of the running mean of squares; default 0.99
---@field epsilon? number default 1e-8
---@field momentum? number default 0
---@field centered? boolean whether the squared running mean is subtracted from the mean of squares;
---   default false

--- RMSprop, as in torch.optim.RMSprop; weight decay is added to the gradient. State: 4 bytes for
--- each parameter, plus 4 with momentum, plus 4 if centered.
---@param list moonring.Parameters
---@param options? moonring.RmspropOptions
---@return moonring.Optimizer
function trainer.rmsprop(list, options) end

---@class moonring.BadamRatioOptions
---@field zero? moonring.Zero ZeRO by which the parameters are sharded; default: not sharded
---@field loraplus_lr_ratio? number as in AdamWOptions; default 1
---@field ratio? number fraction of each weight's elements that is trained at a time; default 0.05
---@field mask? "adjacent" | "scatter" how these elements are selected; default "adjacent"
---@field beta1? number default 0.9
---@field beta2? number default 0.999
---@field epsilon? number default 1e-8
---@field seed? integer seed of the order in which "scatter" selects; default 0

--- BAdam's ratio mode (arXiv 2404.02827), as in the package badam: Adam on a fraction of each
--- weight's elements, with a new selection every hundred steps. No weight decay; embedding and head
--- are not trained. State: 8 bytes for each element that is trained at a time.
---@param list moonring.Parameters
---@param options? moonring.BadamRatioOptions
---@return moonring.Optimizer
function trainer.badam_ratio(list, options) end

---@class moonring.LionOptions: moonring.NativeRuleOptions
---@field beta1? number default 0.9
---@field beta2? number default 0.99

--- Lion (arXiv 2302.06675), with decoupled weight decay. State: 4 bytes for each parameter.
---@param list moonring.Parameters
---@param options? moonring.LionOptions
---@return moonring.Optimizer
function trainer.lion(list, options) end

---@class moonring.AdemamixOptions: moonring.NativeRuleOptions
---@field beta1? number default 0.9
---@field beta2? number default 0.999
---@field beta3? number decay rate of the slow running mean; default 0.9999
---@field alpha? number weight of the slow mean; default 5
---@field t_alpha? integer steps over which alpha is warmed up; default 0
---@field t_beta3? integer steps over which beta3 is warmed up; default 0
---@field epsilon? number default 1e-8

--- AdEMAMix (arXiv 2409.03137), with decoupled weight decay. State: 12 bytes for each parameter.
---@param list moonring.Parameters
---@param options? moonring.AdemamixOptions
---@return moonring.Optimizer
function trainer.ademamix(list, options) end

---@class moonring.SpamOptions: moonring.NativeRuleOptions
---@field beta1? number default 0.9
---@field beta2? number default 0.999
---@field epsilon? number default 1e-6
--- a gradient is clipped where its square exceeds the mean of squares by more than this factor; 0:
--- no clipping; default 5000
---@field threshold? number
---@field reset? integer steps after which the running means are reset to zero; default 500
---@field warmup? integer steps after a reset in which the learning rate is warmed up; default 150
---@field quiet? integer steps after a reset without clipping; default 20
--- fraction of each matrix that is trained until the next reset, which selects another; default 1
---@field density? number
---@field seed? integer seed of the selection; default 0

--- SPAM (arXiv 2501.06842): Adam with spike-aware clipping and momentum resets, with decoupled
--- weight decay. State: 8 bytes for each parameter that is trained.
---@param list moonring.Parameters
---@param options? moonring.SpamOptions
---@return moonring.Optimizer
function trainer.spam(list, options) end

---@class moonring.ScheduleFreeOptions: moonring.NativeRuleOptions
---@field kind? "adamw" | "sgd" | "radam" default "adamw"
---@field beta1? number greater than 0; for "sgd" its momentum; default 0.9
---@field beta2? number default 0.999
---@field epsilon? number default 1e-8
---@field warmup_steps? integer steps of warm-up; not for "radam"; default 0
---@field r? number exponent of the step number in the weights of the average; default 0
---@field weight_lr_power? number exponent of the largest learning rate so far in these weights;
---   default 2

--- Schedule-free optimizers (arXiv 2405.15682), as in the package schedulefree: weights are trained
--- at one point and evaluated at another, their average (Optimizer:average). State: 8 bytes for
--- each parameter, 4 for "sgd".
---@param list moonring.Parameters
---@param options? moonring.ScheduleFreeOptions
---@return moonring.Optimizer
function trainer.schedule_free(list, options) end

--- Options of optimizers that apply Adam to some weights or in a low-rank subspace.
---@class moonring.AdamTermsOptions: moonring.NativeRuleOptions
---@field beta1? number default 0.9
---@field beta2? number default 0.999
---@field epsilon? number default 1e-8

---@class moonring.MuonOptions: moonring.AdamTermsOptions
---@field form? "torch" | "llamafactory" whose implementation is followed; default "torch"
---@field scale? "original" | "match_rms_adamw" scaling of the update; default "original"
---@field momentum? number default 0.95
---@field nesterov? boolean default true
---@field iterations? integer Newton-Schulz iterations; default 5
---@field bf16? boolean whether they are computed in bf16; false: in the gradient's dtype; default
---   true

--- Muon for matrices and stacks of matrices, Adam for other parameters.
---@param list moonring.Parameters
---@param options? moonring.MuonOptions
---@return moonring.Optimizer
function trainer.muon(list, options) end

---@class moonring.GaloreOptions: moonring.AdamTermsOptions
---@field rank? integer default 16
---@field gap? integer steps between updates of the projection; default 200
---@field scale? number default 2
---@field projection? "std" | "reverse_std" | "left" | "right" | "full" side on which the gradient
---   is projected; default "std"
---@field targets? string[] substrings of the names of linear layers; default: all except the head

--- GaLore (arXiv 2403.03507) for linear layers, Adam for other parameters.
---@param list moonring.Parameters
---@param options? moonring.GaloreOptions
---@return moonring.Optimizer
function trainer.galore(list, options) end

---@class moonring.ApolloOptions: moonring.AdamTermsOptions
---@field rank? integer default 16
---@field gap? integer steps between updates of the projection; default 200
---@field scale? number default 32
---@field source? "random" | "svd" how the projection is made; default "random"
---@field projection? "std" | "left" | "right" side on which the gradient is projected; default
---   "std"
---@field scale_by? "channel" | "tensor" granularity of the learning rate scaling; default "channel"
---@field scale_front? boolean whether `scale` is applied before the limit on the growth of the
---   update's norm; default false
---@field targets? string[] substrings of the names of linear layers; default: all except the head
---@field seed? integer seed of random projections; default 0

--- APOLLO (arXiv 2412.05270) for linear layers, Adam for other parameters.
---@param list moonring.Parameters
---@param options? moonring.ApolloOptions
---@return moonring.Optimizer
function trainer.apollo(list, options) end

---@class moonring.AdamMiniOptions: moonring.AdamTermsOptions
---@field hidden_size integer the model's hidden size
---@field heads integer the model's number of query heads

--- Adam-mini (arXiv 2406.16793). State: 4 bytes for each parameter.
---@param list moonring.Parameters
---@param options moonring.AdamMiniOptions
---@return moonring.Optimizer
function trainer.adam_mini(list, options) end

---@class moonring.AdafactorOptions: moonring.NativeRuleOptions
---@field form? "transformers" | "torch" whose implementation is followed; default "transformers"
---@field decay_rate? number default 0.8
---@field clip? number bound of the update's root mean square; default 1

--- Adafactor (arXiv 1804.04235). State: a row and a column for each matrix; 4 bytes for each
--- parameter of a vector.
---@param list moonring.Parameters
---@param options? moonring.AdafactorOptions
---@return moonring.Optimizer
function trainer.adafactor(list, options) end

---@class moonring.FiraOptions: moonring.AdamTermsOptions
---@field rank? integer default 16
---@field gap? integer steps between updates of the projection; default 200
---@field alpha? number default 1
---@field projection? "std" | "reverse_std" | "left" | "right" side on which the gradient is
---   projected; default "std"
---@field targets? string[] substrings of the names of linear layers; default: all except the head

--- Fira (arXiv 2410.01623) for linear layers, Adam for other parameters.
---@param list moonring.Parameters
---@param options? moonring.FiraOptions
---@return moonring.Optimizer
function trainer.fira(list, options) end

---@class moonring.CondaOptions: moonring.AdamTermsOptions
---@field gap? integer steps between updates of the basis; default 2000
---@field scale? number default 1
---@field targets? string[] substrings of the names of linear layers; default: all except the head

--- Conda (arXiv 2509.24218) for linear layers, Adam for other parameters.
---@param list moonring.Parameters
---@param options? moonring.CondaOptions
---@return moonring.Optimizer
function trainer.conda(list, options) end

---@class moonring.OnlineSubspaceOptions: moonring.AdamTermsOptions
---@field rank? integer default 128
---@field gap? number inverse of the projection's learning rate; default 50
---@field scale? number default 1
---@field learning_rate number the run's peak learning rate; the rates of steps are compared with it
---@field targets? string[] substrings of the names of linear layers; default: all except the head

--- Online subspace descent (arXiv 2408.12857) for linear layers, Adam for other parameters.
---@param list moonring.Parameters
---@param options moonring.OnlineSubspaceOptions
---@return moonring.Optimizer
function trainer.online_subspace(list, options) end

---@class moonring.SwanOptions: moonring.AdamTermsOptions
---@field alpha? number factor of the learning rate; default 0.05
---@field ns_steps? integer iterations of the whitening; default 20
---@field ns_beta? number step size of these iterations, at most 0.866; the default 0.5 converges

--- SWAN (arXiv 2412.13148) for matrices and stacks of matrices, without state; Adam for other
--- parameters.
---@param list moonring.Parameters
---@param options? moonring.SwanOptions
---@return moonring.Optimizer
function trainer.swan(list, options) end

---@class moonring.GrassOptions: moonring.AdamTermsOptions
---@field rank? integer rows selected by the projection; default 16
---@field gap? integer steps between updates of the projection; default 200
---@field alpha? number default 1
---@field sampling? "top" | "multinomial" how rows are selected by their norms; default "top"
---@field targets? string[] substrings of the names of linear layers; default: all except the head
---@field seed? integer seed of the sampling; default 0

--- Grass (arXiv 2406.17660) for linear layers, Adam for other parameters.
---@param list moonring.Parameters
---@param options? moonring.GrassOptions
---@return moonring.Optimizer
function trainer.grass(list, options) end

--- Returns parameters with shapes but without data, to compute the size of an optimizer's state.
---@param names string[]
---@param shapes integer[][]
---@return moonring.Parameters
function trainer.meta_parameters(names, shapes) end

--- Bytes of an optimizer's state after its first step. Errors: INVALID_ARGUMENT for an optimizer
--- that none of the functions above created.
---@param optimizer moonring.Optimizer
---@return integer
function trainer.new_state_bytes(optimizer) end

---@class moonring.OwnOptimizerOptions
---@field zero? moonring.Zero ZeRO by which the parameters are sharded; default: not sharded
--- for each parameter whether its rule receives the whole tensor, on one of the ranks that share
--- it; default: each rank's shard for all of them
---@field whole? boolean[]
---@field loraplus_lr_ratio? number as in AdamWOptions; default 1

--- Creates an optimizer whose rule is a Lua function. Scripts call it through `moonring.optimizer`.
--- `call("state", i, weight)` returns the state of parameter i (from 1) as a table of tensors by
--- name; `call("step", i, weight, state, gradient, lr, k)` updates the weight in place and returns
--- the new state.
---@param list moonring.Parameters
---@param call function
---@param options? moonring.OwnOptimizerOptions
---@return moonring.Optimizer
function trainer.own_optimizer(list, call, options) end

--- The facts about each parameter of a list that an optimizer's rule receives, in the list's order.
---@param list moonring.Parameters
---@return { name: string, shape: integer[], numel: integer, decays: boolean, trainable: boolean }[]
function trainer.parameter_facts(list) end

---@class moonring.ScheduleOptions
---@field total_steps integer
--- a schedule of Transformers' get_scheduler; default "linear"
---@field kind? "linear" | "cosine" | "cosine_with_restarts" | "cosine_with_min_lr" |
---   "cosine_warmup_with_min_lr" | "polynomial" | "inverse_sqrt" | "warmup_stable_decay" |
---   "constant" | "constant_with_warmup"
---@field learning_rate? number peak learning rate; default 5e-5
---@field warmup_steps? integer steps over which the rate rises from 0; default 0
--- warm-up as a fraction of total_steps, rounded up, used if warmup_steps is 0; default 0
---@field warmup_ratio? number
--- number of cosine waves for cosine, cosine_with_min_lr, cosine_warmup_with_min_lr and
--- warmup_stable_decay (default 0.5); number of restarts for cosine_with_restarts (default 1)
---@field num_cycles? number
--- cosine_with_min_lr and cosine_warmup_with_min_lr: final learning rate; either this or
--- min_lr_rate is required
---@field min_lr? number
---@field min_lr_rate? number final rate as a fraction of learning_rate
--- cosine_warmup_with_min_lr: initial rate of the warm-up as a fraction of learning_rate; default 1
--- / warm-up steps
---@field warmup_lr_rate? number
---@field lr_end? number polynomial: final rate; default 1e-7
---@field power? number polynomial: exponent; default 1
--- warmup_stable_decay: steps at the peak; default: a third of the steps after the warm-up
---@field num_stable_steps? integer
--- warmup_stable_decay: steps of the decay; default: the remaining steps
---@field num_decay_steps? integer
--- warmup_stable_decay: shape of the warm-up; default "linear"
---@field warmup_type? "linear" | "cosine" | "1-sqrt"
--- warmup_stable_decay: shape of the decay; default "cosine"
---@field decay_type? "linear" | "cosine" | "1-sqrt"
--- warmup_stable_decay: initial and final rate as a fraction of learning_rate; default 0
---@field min_lr_ratio? number

--- Creates a learning rate schedule as in Transformers' get_scheduler: with w warm-up steps, step k
--- = 0, 1, ... has the rate learning_rate k / w while k < w, then the rate of its kind (formulas in
--- trainer/optimizer/schedule.h). Errors: INVALID_ARGUMENT for an option that the kind does not
--- have.
---@param options moonring.ScheduleOptions
---@return moonring.Schedule
function trainer.schedule(options) end

--- Sums every gradient over all ranks, in place, without averaging. A parameter without a gradient
--- contributes zeros. Collective over all ranks.
---@param list moonring.Parameters
---@param mesh moonring.Mesh
function trainer.sum_gradients(list, mesh) end

---@class moonring.ClipOptions
--- gradients with a larger norm are scaled down to this; 0: no clipping; default 1
---@field max_norm? number

--- Clips gradients as torch.nn.utils.clip_grad_norm_ does. Call it after `sum_gradients`: then
--- every rank computes the same norm. Errors: ABORTED, with parameter names, if the norm is not
--- finite.
---@param list moonring.Parameters
---@param options? moonring.ClipOptions
---@return number norm before clipping, in fp64
function trainer.clip_gradients(list, options) end

--- Whether a weight belongs to an embedding, judged by its module's name.
---@param name string
---@return boolean
function trainer.is_embedding(name) end

--- Global gradient norm: sqrt of the sum of squares over all gradients, in fp64.
---@param list moonring.Parameters
---@return number
function trainer.global_norm(list) end

--- Gradient norm of each trainable parameter, by name.
---@param list moonring.Parameters
---@return table<string, number>
function trainer.norms(list) end

---@class moonring.OuterStepsOptions
---@field mesh moonring.Mesh
---@field states moonring.States states of a Zero that was created with `apart = true`
---@field learning_rate? number learning rate of the outer optimizer; default 1
---@field momentum? number 0 or more and less than 1; default 0
---@field nesterov? boolean whether the momentum is Nesterov's; default false
---@field clip? number bound of each element of the momentum; 0 or absent: none
---@field overlap? boolean whether a round's differences are communicated during the next round;
---   default false

--- Creates local-step rounds over the sp groups of a mesh, beginning at the current weights.
--- Collective over all ranks.
---@param options moonring.OuterStepsOptions
---@return moonring.OuterSteps
function trainer.outer_steps(options) end

--- Creates adaptive gradient clipping by the history of the norm (ZClip, arXiv 2504.02507;
--- trainer/optimizer/zclip.h).
---@return moonring.ZClip
function trainer.zclip() end

---@class moonring.ZeroOptions
---@field mesh moonring.Mesh
--- 0: nothing is sharded; 1: optimizer state; 2: also gradients; 3: also weights; default 0
---@field stage? integer
--- over which ranks states are sharded; separate groups hold replicas; default "world"
---@field group? "world" | "sp" | "node"
---@field ranks_per_machine? integer neighbouring ranks that form a node; default all
---@field streams? boolean whether a GPU's matrices are stored on the host and copied in for each
---   use; stage 0 or 3
---@field cast_once? boolean whether `held` of Zero:states, which casts weights once and keeps fp32
---   masters, also applies if nothing is sharded or offloaded; default false
--- where the optimizer's state is stored and its step is computed; "none": with the weights;
--- default "none"
---@field offload? "none" | "cpu" | "disk"
---@field folder? string for "disk": the folder of the unnamed state file
--- number of neighbouring ranks that share each layer's experts; default 1. A model that is loaded
--- with this reads only its own experts
---@field expert_ranks? integer
--- whether each sp group has independent states, with no gradients from other groups (for local
--- steps); stages 1 to 3 then shard over sp; default false
---@field apart? boolean
---@field bucket_bytes? integer bytes of gradients in one reduce-scatter; default 32 MiB

--- Creates ZeRO (arXiv 1910.02054): how a run's states are sharded over ranks (memory and traffic:
--- trainer/sharding/zero_cost.h). Also an option of `model.load`, which at stage 3 shards weights
--- while it reads them. Collective over all ranks.
---@param options moonring.ZeroOptions
---@return moonring.Zero
function trainer.zero(options) end

---@class moonring.HeatMapOptions
---@field columns string[] column labels, left to right
---@field rows string[] row labels, top to bottom
---@field shares number[][] values from 0 to 1, one list for each row; a cell that is not finite is
---   drawn white
---@field title? string
---@field x_label? string
---@field y_label? string

--- Draws a heat map as a PNG, from red (0) to green (1).
---@param path string
---@param options moonring.HeatMapOptions
function trainer.heat_map(path, options) end

--- The lock of one run on a folder, the file run.lock in it. It is released when the script or the
--- process ends, however that ends.
---@class moonring.FolderLock
local FolderLock = {}

function FolderLock:close() end

--- Whether the folder and its run.lock still exist under their names.
---@return boolean
function FolderLock:stands() end

--- The current path of run.lock: in the folder, in its new place if it was renamed, or "" if it was
--- removed.
---@return string
function FolderLock:place() end

--- Locks a folder for this process without waiting. Creates the folder and its parents if missing;
--- what was created and stays empty is removed with the lock. Errors: FAILED_PRECONDITION if
--- another process has the lock, with its id, its machine and the time; PERMISSION_DENIED if the
--- folder cannot be created or written to.
---@param folder string
---@return moonring.FolderLock? lock nil on a file system without locks
---@return string? why the reason, if there is no lock
function trainer.lock_folder(folder) end

--- Raises the error of lock_folder if another process has locked the folder. Changes nothing there.
---@param folder string
function trainer.check_folder_lock(folder) end

---@class moonring.LogOptions
---@field dir string an existing folder
---@field total_steps integer
---@field num_train_epochs? number for trainer_state.json; default 0
---@field logging_steps? integer for trainer_state.json; default 1
---@field eval_steps? integer for trainer_state.json; default logging_steps
---@field save_steps? integer for trainer_state.json; default 500
---@field train_batch_size? integer for trainer_state.json; default 1
--- floating-point operations of a forward and backward for one token; total_flos is this times the
--- tokens
---@field flops_per_token? number
--- whether lines include total_tokens and throughput, and log_history includes
--- num_input_tokens_seen; default false
---@field tells_tokens? boolean
--- additional rates in train_results.json, by name: tokens per second divided by this number
---@field token_rates? table<string, number>
--- steps made before, if the run is resumed: log lines up to there are kept; default 0
---@field first_step? integer
---@field first_tokens? integer tokens in these steps; default 0
---@field first_epoch? number epochs finished after these steps; default 0

--- Creates a run's log under the names of LLaMA-Factory and Transformers: trainer_log.jsonl during
--- the run; trainer_state.json, train_results.json and all_results.json at its end. Only one rank
--- creates it.
---@param options moonring.LogOptions
---@return moonring.Log
function trainer.log(options) end

---@class moonring.ProgressOptions
---@field kind? "auto" | "bar" | "plain" | "json" | "off" as the key progress; default "auto"
---@field gpu? boolean whether the GPU's memory is shown instead of the process's; default false

--- Creates a progress display: a bar on a terminal, plain lines elsewhere, both on stderr; "json":
--- one line for each step on stdout. A background thread redraws it between calls.
---@param options? moonring.ProgressOptions
---@return moonring.Progress
function trainer.progress(options) end

--- Creates a counter of finished work for the progress display; data.load, model.load and
--- Model:save accept one.
---@return moonring.WorkCount
function trainer.work_count() end

---@class moonring.EventFileOptions
---@field folder string an existing folder
--- steps already made, if the run is resumed: later events are removed from the folder's event
--- files; default 0
---@field first_step? integer

--- Creates a new TensorBoard event file in a folder. Errors: those of the file system.
---@param options moonring.EventFileOptions
---@return moonring.EventFile
function trainer.event_file(options) end

--- Opens a text file to which lines are appended; each line is written at once. Errors: those of
--- the file system.
---@param path string
---@param keep? boolean true: append to existing lines; default: start an empty file
---@return moonring.LineFile
function trainer.line_file(path, keep) end

--- Starts a program that receives lines on its stdin. No call waits for the program except
--- `finish`. Errors: NOT_FOUND; PERMISSION_DENIED, also under --sandbox; FAILED_PRECONDITION in an
--- embedded runtime.
---@param command string[] the program, searched on the PATH, and its arguments
---@return moonring.LineProgram
function trainer.line_program(command) end

---@class moonring.MatmulRateOptions
---@field dtype? string default "fp32"
---@field device? string default "cpu"
---@field seconds? number duration of the measurement, at least one product; default 0.05
---@field device_peak? number bytes of GPU memory that existing tensors and these matrices may use
---   together

--- Measures floating-point operations per second in products of large square matrices; 0 if the GPU
--- has no room for them.
---@param options? moonring.MatmulRateOptions
---@return number
function trainer.matmul_rate(options) end

---@class moonring.HoldFilesOptions
---@field folder string the folder whose files are buffered
---@field budget number most bytes in memory

--- Buffers files that this thread writes between `begin` and `finish` in memory instead of on disk:
--- files in the folder that are written completely (system.write) or not flushed (safetensors.write
--- and Model:save with flush = false). Files that exceed the budget go to disk.
---@param options moonring.HoldFilesOptions
---@return moonring.HeldFiles
function trainer.hold_files(options) end

---@class moonring.HeldFiles
local HeldFiles = {}

--- From here on this thread's files in the folder are written to memory.
function HeldFiles:begin() end

--- Ends the buffering that `begin` started.
function HeldFiles:finish() end

--- Bytes that have been buffered in total.
---@return integer
function HeldFiles:bytes() end

--- Whether some file exceeded the budget.
---@return boolean
function HeldFiles:was_full() end

--- Frees the memory, unless a Publisher still uses it.
function HeldFiles:close() end

---@class moonring.PublisherOptions
---@field draft string temporary folder that all ranks wrote to
---@field folder string final name of the checkpoint; an existing folder of that name is replaced
---@field names string[] this rank's files in it
---@field held? moonring.HeldFiles this rank's files that are buffered in memory
---@field step integer
---@field rank? integer default 0
---@field ranks? integer default 1
---@field mesh? moonring.Mesh mesh by which a rank reports to rank 0 that it could not finish its
---   files

--- Publishes a checkpoint in a background thread: flushes this rank's files to disk and computes
--- their checksums. Rank 0 waits for all ranks, writes manifest.json and renames the folder. Ranks
--- synchronize through files in the folder; a rank that cannot write there leaves a note for rank
--- 0.
---@param options moonring.PublisherOptions
---@return moonring.Publisher
function trainer.publish_checkpoint(options) end

--- Removes a checkpoint if it exists. An incomplete folder never has the name of a complete
--- checkpoint at any time.
---@param folder string
function trainer.remove_checkpoint(folder) end

--- Raises an error with the reason if a folder is not a complete checkpoint. Reads every byte of
--- it.
---@param folder string
function trainer.check_checkpoint(folder) end

---@class moonring.Publisher
local Publisher = {}

--- Whether publishing has ended, successfully or not: the whole checkpoint on rank 0, this rank's
--- files on other ranks.
---@return boolean
function Publisher:done() end

--- Waits until publishing has ended. Raises the file system's error if it failed.
function Publisher:wait() end

--- Waits only for this rank's files.
function Publisher:close() end

--- Peak memory of this process so far, in bytes; 0 if the kernel does not report it.
---@return integer
function trainer.peak_memory() end

--- Bytes that malloc keeps free in this process.
---@return integer
function trainer.held_memory() end

--- Peak GPU memory of LibTorch's allocator on this rank since the last call, in bytes: allocated
--- (tensors) and reserved (including its cache); nil if no GPU was used.
---@return { allocated: integer, reserved: integer }?
function trainer.take_device_peaks() end

--- Properties of this rank's GPU: name, major and minor (compute capability), multiprocessors,
--- driver and runtime (CUDA versions, 13000 for 13.0); nil without a GPU or in a build without
--- CUDA.
---@return table?
function trainer.gpu() end

--- Selects deterministic algorithms for GPU operators, which are slower. Applies to the whole
--- process; call it before anything is computed on the GPU. CPU operators are always deterministic.
---@param wanted boolean
function trainer.deterministic(wanted) end

--- Returns memory that malloc keeps free to the kernel, in whole pages.
---@param seconds? number only if allocating it once more would take no longer than this
function trainer.release_memory(seconds) end

--- Bytes of live host tensors by use: weights, gradients, optimizer, checkpoint_inputs,
--- activations, attention, logits, communication, other. GPU memory is not counted.
---@return table<string, integer>
function trainer.live_memory() end

--- Starts sampling this process's memory until it is closed.
---@return moonring.MemoryWatch
function trainer.memory_watch() end

---@class moonring.MemoryWatch
local MemoryWatch = {}

--- Peak of anonymous and shared memory since the last call, in bytes.
---@return integer
function MemoryWatch:take_peak() end

--- Peak memory so far above the level after start-up, in bytes, by use: the names of live_memory
--- and data_and_libraries, scripts, held_by_allocator, checkpoint_copy. Totals: explained (sum of
--- these parts), kernel (largest value that the kernel reported, anonymous and shared),
--- start_level, and tensors (peak of tensor memory). On a GPU: device_allocated and
--- device_reserved, peaks of its allocator since `take_device_peaks`, and memory by use at the time
--- of its peak, under the names of live_memory.
---@return table<string, integer> parts
---@return table<string, integer> totals
---@return table<string, integer>? device
function MemoryWatch:report() end

function MemoryWatch:close() end

---@class moonring.Optimizer
local Optimizer = {}

--- Makes one update in place. A frozen parameter, or one without a gradient, is unchanged.
--- Gradients are not cleared.
---@param lr number
function Optimizer:step(lr) end

--- Bytes of the optimizer's state on this rank.
---@return integer
function Optimizer:state_bytes() end

--- For an optimizer that trains other weights than those that are evaluated and saved
--- (schedule_free): replaces the weights with their average, or restores the trained ones. Call
--- publish() after it. Collective over all ranks.
---@param average boolean
---@return boolean whether any weight was written; false for all other optimizers
function Optimizer:average(average) end

function Optimizer:close() end

---@class moonring.Zero
local Zero = {}

---@class moonring.StatesOptions
--- dtype of the matrices that forwards use; the shards are then fp32 master weights. Default: the
--- weights' stored dtype
---@field held? "bf16" | "fp16"

--- Creates the states of these parameters. At stage 3 parameters that are not sharded yet are
--- sharded now, including frozen ones. Collective over all ranks.
---@param list moonring.Parameters must not be closed before the states
---@param options? moonring.StatesOptions
---@return moonring.States
function Zero:states(list, options) end

--- Whether ranks that process different data share gradients or weights, so that all must run the
--- same number of forwards and backwards.
---@return boolean
function Zero:lockstep() end

--- Number of ranks that share each layer's experts.
---@return integer
function Zero:expert_ranks() end

--- What this rank has sent to these ranks so far.
---@return integer steps of communication
---@return integer bytes sent
function Zero:expert_traffic() end

function Zero:close() end

--- Gradients, weights and their sharding during training. The order in a step: forward and
--- backward; sum_gradients; clip; the optimizer's step; publish; clear_gradients.
---@class moonring.States
local States = {}

--- This rank's one-dimensional shards of the trainable parameters, for an optimizer.
---@return moonring.Parameters
function States:parameters() end

--- Sums every gradient over all ranks into the shards, without averaging. Collective over all
--- ranks.
function States:sum_gradients() end

---@class moonring.ClipStatesOptions: moonring.ClipOptions
---@field norm? number the value of norm(), divided by `loss_scale` if given; default: it is
---   computed
--- factor by which the gradients are scaled; they are divided by it; default 1
---@field loss_scale? number

--- Clips gradients as trainer.clip_gradients does, over all shards. Collective over all ranks.
---@param options? moonring.ClipStatesOptions
---@return number norm before clipping, in fp64, the same on all ranks
function States:clip(options) end

--- Global gradient norm: sqrt of the sum of squares over all gradients, in fp64. Collective over
--- all ranks. Errors: ABORTED, with parameter names, if it is not finite.
---@return number
function States:norm() end

--- Gradient norm of each parameter, by name. Collective over all ranks.
---@return table<string, number>
function States:norms() end

--- Gathers the full gradient of a parameter, after sum_gradients; nil if no rank has one.
--- Collective over all ranks.
---@param name string
---@return moonring.Tensor?
function States:gradient(name) end

--- Call after an optimizer's step: makes forwards use the new weights. Collective over all ranks.
function States:publish() end

--- Clears the gradients of shards and parameters for the next step.
function States:clear_gradients() end

--- As Zero:lockstep.
---@return boolean
function States:lockstep() end

--- Bytes for trainable parameters that this rank stores between blocks: weights including master
--- weights, and gradients.
---@return integer weights
---@return integer gradients
function States:bytes() end

--- Which shard of the states this rank stores.
---@return integer index of the shard, from 0
---@return integer parts number of shards
---@return boolean first whether this rank is the first of those that store it, and so writes it to
---   checkpoints
function States:place() end

--- Returns this rank's shard of a checkpoint: weight/NAME, and the optimizer's tensors under its
--- names. These are the live tensors, not copies; for experts that are sharded over ranks, the
--- shards of all of them. Collective over the ranks that share experts.
---@param optimizer moonring.Optimizer over parameters()
---@param keeps? boolean false: returns nothing, this rank only takes part in the gathering
---@return table<string, moonring.Tensor>
function States:save(optimizer, keeps) end

--- Restores the states from the shards that save returned on every rank, in rank order; the number
--- of shards may differ from the number of ranks. Call publish() after it. Raises an error if
--- names, shapes or dtypes differ.
---@param optimizer moonring.Optimizer over parameters()
---@param saved table<string, moonring.Tensor>[]
function States:load(optimizer, saved) end

function States:close() end

--- Rounds of local steps (DiLoCo): sp groups train independently and synchronize at the end of each
--- round (equations in trainer/outer_steps.h). Call States:publish after a function that writes
--- weights.
---@class moonring.OuterSteps
local OuterSteps = {}

--- Ends a round: averages the groups' differences from the common point, applies the outer
--- optimizer and sets all groups to the new common point. With overlap the differences of the
--- previous round are applied. Collective over all ranks.
function OuterSteps:end_round() end

--- Call after the last round: applies differences that are still being communicated. Collective
--- over all ranks.
---@return boolean acted whether there were any
function OuterSteps:finish() end

--- Replaces the weights with the common point, or restores the group's own weights.
---@param common boolean
---@return boolean written whether any weight was written
function OuterSteps:show_common(common) end

--- Returns this rank's shard of a checkpoint, the same on all groups: outer/NAME,
--- outer_momentum/NAME, and outer_difference/NAME for differences that are being communicated,
--- whose transfer it waits for.
---@return table<string, moonring.Tensor>
function OuterSteps:save() end

--- Restores the state from the shards that save returned on every rank of a group, in rank order,
--- however many there are. With an empty list the current weights become the common point.
---@param saved table<string, moonring.Tensor>[]
function OuterSteps:load(saved) end

--- Bytes that this rank stores for rounds, in addition to weights and optimizer.
---@return integer
function OuterSteps:state_bytes() end

--- What this rank has sent for rounds so far.
---@return integer steps of communication
---@return integer bytes sent
function OuterSteps:traffic() end

function OuterSteps:close() end

---@class moonring.ZClip
local ZClip = {}

--- Returns the norm to which a gradient with this norm should be clipped: a smaller value if it is
--- a spike, else infinity. Adds the norm to the history.
---@param norm number must be finite
---@return number
function ZClip:limit(norm) end

--- The history as text, for a checkpoint.
---@return string
function ZClip:state() end

--- Restores the history from a checkpoint.
---@param text string a value of state()
function ZClip:load_state(text) end

function ZClip:close() end

---@class moonring.Schedule
local Schedule = {}

--- The learning rate of a step.
---@param step_index integer from 0
---@return number
function Schedule:at(step_index) end

--- Number of warm-up steps.
---@return integer
function Schedule:warmup_steps() end

function Schedule:close() end

---@class moonring.Log
local Log = {}

---@class moonring.Record
---@field step integer steps made, from 1
---@field epoch number epochs done
---@field tokens integer tokens that the run has processed so far
--- seconds that the run's computation so far would take at the devices' peak rate; mfu and
--- mfu_causal are computed from these two
---@field seconds_at_peak? number
---@field causal_seconds_at_peak? number
---@field loss? number
---@field lr? number
---@field grad_norm? number
---@field peak_memory_bytes? number
---@field metrics? table<string, number> additional values, by the names to write

--- Writes one line to trainer_log.jsonl. Absent fields are omitted. If the disk refuses the line,
--- it is kept and written with the next one; then the reason is returned as `why`.
---@param options moonring.Record
---@return string words the line as text for people
---@return string? why the line is not on disk yet; nil if it is
---@return string line as in the file
function Log:write(options) end

---@class moonring.Standing
---@field step integer steps made
---@field epoch number
---@field tokens integer tokens that the run has processed

--- Records the progress of the run; call it after every step, logged or not. It appears in
--- trainer_state.json and at the end of the log.
---@param options moonring.Standing
function Log:reach(options) end

--- Ends the log: writes the result files.
---@param train_loss number mean over all steps
---@param examples integer number of examples that the run processed
function Log:finish(train_loss, examples) end

--- Draws a series of the log as a PNG: the raw values in a pale colour and a curve smoothed as in
--- LLaMA-Factory. Errors: INVALID_ARGUMENT if the series has no finite value.
---@param key string "loss", "learning_rate", "grad_norm", ...
---@param path string
---@param title string
function Log:plot(key, path, title) end

--- Whether any line so far contains this value.
---@param key string as in plot
---@return boolean
function Log:has(key) end

---@class moonring.Best
---@field metric number
---@field step integer
---@field checkpoint string folder of the checkpoint

--- Sets the best checkpoint so far, for trainer_state.json.
---@param options moonring.Best
function Log:best(options) end

--- Writes NAME_results.json and adds the same values to all_results.json.
---@param name string such as "eval"
---@param results table<string, number>
function Log:results(name, results) end

--- Writes the current trainer_state.json.
---@param folder? string folder of a checkpoint; default: the log's folder
function Log:state(folder) end

function Log:close() end

---@class moonring.Progress
local Progress = {}

---@class moonring.TrainingProgress
---@field total_steps integer
---@field first_step? integer steps already made; default 0
---@field first_tokens? integer tokens in these steps; default 0
---@field memory_limit? number bytes; not shown if absent
---@field layout? string constant text to show: "sp 4 ring"

--- Starts the display of training steps.
---@param options moonring.TrainingProgress
function Progress:train(options) end

---@class moonring.StepProgress
---@field step integer steps made
---@field epoch? number
---@field tokens? integer tokens that the run has processed so far
---@field loss? number
---@field lr? number
---@field grad_norm? number

--- Shows the result of a step.
---@param options moonring.StepProgress
function Progress:step(options) end

--- Shows the text of a logging step, as a line if progress is "plain".
---@param step integer from 1
---@param text string
function Progress:report(step, text) end

--- Call after the last step: the bar stays on the screen.
function Progress:end_training() end

--- Prints a line above the bar.
---@param text string
function Progress:line(text) end

--- Prints an event that is not a step, as a line if progress is "json".
---@param json string a JSON object
function Progress:event(json) end

--- Starts a phase, such as loading, which is displayed until end_phase.
---@param name string
---@param unit? string unit of the count
---@param count? moonring.WorkCount
function Progress:begin_phase(name, unit, count) end

--- Ends the phase that was started last.
function Progress:end_phase() end

--- Durations of all phases, in the order in which they first started.
---@return { name: string, seconds: number }[]
function Progress:spent() end

--- Ends the display.
function Progress:close() end

---@class moonring.WorkCount
local WorkCount = {}

--- Adds to the work that is done.
---@param more integer
function WorkCount:add(more) end

--- Adds to the work that is expected.
---@param more integer
function WorkCount:expect(more) end

--- The amount of work done.
---@return integer
function WorkCount:counted() end

function WorkCount:close() end

---@class moonring.EventFile
local EventFile = {}

--- Writes scalars of a step, by tag.
---@param step integer
---@param by_name table<string, number>
function EventFile:scalars(step, by_name) end

--- Writes a histogram of values with thirty buckets of equal width.
---@param step integer
---@param tag string
---@param values number[]
function EventFile:histogram(step, tag, values) end

--- Writes Markdown, shown as TAG/text_summary.
---@param step integer
---@param tag string
---@param text string
function EventFile:text(step, tag, text) end

--- Writes a run's hyperparameters for the HParams dashboard.
---@param parameters table<string, boolean | number | string>
---@param metrics string[] tags of the scalars by which runs are compared
function EventFile:hyperparameters(parameters, metrics) end

--- Marks the run as successful.
---@param step integer
function EventFile:finish(step) end

--- The file's path.
---@return string
function EventFile:path() end

function EventFile:close() end

---@class moonring.LineFile
local LineFile = {}

--- Appends a line. Errors: those of the file system; the line is then kept and written with the
--- next one.
---@param line string without a line end
function LineFile:append(line) end

function LineFile:close() end

---@class moonring.LineProgram
local LineProgram = {}

--- Adds a line to the program's queue. Drops it if the queue is full or the program has ended.
---@param line string without a line end
function LineProgram:send(line) end

--- Waits, at most half a minute, until the program has read all lines and has ended.
function LineProgram:finish() end

--- Messages about the program since the last call, including what it wrote to stderr.
---@return string[]
function LineProgram:notes() end

function LineProgram:close() end

return trainer
