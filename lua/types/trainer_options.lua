---@meta moonring.native.trainer

--- The optimizers of trainer/rules, and further options. Made by docs/option_types.lua.
---@class (partial) moonring.trainer
local trainer = {}

---@class (partial) moonring.AdamWOptions
---@field beta1? number default 0.9
---@field beta2? number default 0.999
---@field epsilon? number default 1e-8
---@field loraplus_lr_ratio? number LoRA+ (arXiv 2402.12354): factor of the learning rate of lora_B
---   and of one-dimensional parameters; default 1
---@field weight_decay? number decoupled weight decay (arXiv:1711.05101), not applied to biases and
---   norms; default 0
---@field decay_all? boolean whether weight decay applies to biases and norms too, as in
---   torch.optim.AdamW; default false
---@field full_embeddings? boolean whether m and v of embeddings are stored in fp32, whatever
---   `state` is, as the Trainer does with bitsandbytes; default false
---@field state? "fp32" | "bf16" | "8bit" format in which m and v are stored between steps; default
---   "fp32"

---@class (partial) moonring.LogOptions
---@field dir string the folder of the log, which must exist
---@field total_steps integer
---@field num_train_epochs? number for trainer_state.json; default 0
---@field logging_steps? integer for trainer_state.json; default 1
---@field save_steps? integer for trainer_state.json; default 500
---@field train_batch_size? integer for trainer_state.json; default 1
---@field flops_per_token? number number of floating-point operations of a forward and backward for
---   one token; the value total_flos is this number times the tokens; default 0
---@field tells_tokens? boolean whether log lines contain total_tokens and throughput, and
---   log_history contains num_input_tokens_seen; default false
---@field token_rates? table<string, number> additional values for train_results.json, by name: each
---   is the tokens per second divided by this number
---@field first_step? integer number of steps that an earlier run made, if the run is resumed; log
---   lines up to this step are kept; default 0
---@field first_tokens? integer number of tokens in these steps; default 0
---@field first_epoch? number epochs that were finished after these steps; default 0
---@field first_lines? integer number of log lines to keep at most: the result of Log:lines() when
---   the earlier run's checkpoint was written. By default all lines up to first_step are kept

---@class (partial) moonring.SgdOptions
---@field loraplus_lr_ratio? number LoRA+ (arXiv 2402.12354): factor of the learning rate of lora_B
---   and of one-dimensional parameters; default 1
---@field weight_decay? number decoupled weight decay, not applied to biases and norms; default 0

---@class (partial) moonring.StepSettings
---@field beta1? number default: that of creation
---@field beta2? number default: that of creation
---@field epsilon? number must be more than 0 here: with 0, an element whose gradients were all 0
---   would become NaN; default: that of creation
---@field weight_decay? number default: that of creation

---@class (partial) moonring.ZeroOptions
---@field stage? integer what is sharded over ranks; 0: nothing; 1: optimizer state; 2: also
---   gradients; 3: also weights; default 0
---@field group? "world" | "sp" | "node" the group of ranks over which states are sharded; each
---   group has its own copy of the states; default "world"
---@field offload? "none" | "cpu" | "disk" where the optimizer's state is stored and its step is
---   computed; "none": where the weights are; default "none"
---@field ranks_per_machine? integer number of ranks on one machine (consecutive rank numbers),
---   which form the group "node"; 0: all ranks; default 0
---@field folder? string for offload = "disk": the folder in which the file of the state is created,
---   without a name
---@field streams? boolean whether the matrices of a model on a GPU are stored on the host and
---   copied to the GPU for each use; trainable ones only if the optimizer is offloaded, which then
---   updates them there; only with stage 0 or 3; default false
---@field cast_once? boolean whether the option `held` of Zero:states, which casts weights once per
---   step and keeps fp32 master weights, has an effect even if nothing is sharded or offloaded;
---   default false
---@field expert_ranks? integer number of ranks (with consecutive numbers) that divide the experts
---   of each layer among them; a rank that loads a model with this option reads only its own
---   experts; default 1
---@field apart? boolean whether each sp group has its own states, which receive no gradients from
---   other groups (for local steps); stages 1 to 3 then shard over the sp group; default false
---@field bucket_bytes? integer bytes of gradients in one reduce-scatter; default 33554432

---@class moonring.AdafactorOptions: moonring.NativeRuleOptions
---@field form? "transformers" | "torch" whose implementation is followed; default "transformers"
---@field decay_rate? number default 0.8
---@field clip? number bound of the update's root mean square; default 1
---@field weight_decay? number not applied to biases and norms; default 0

--- Adafactor (arXiv 1804.04235). State: for a matrix one number for each row and each column; for a
--- vector 4 bytes for each parameter.
---@param list moonring.Parameters
---@param options? moonring.AdafactorOptions
---@return moonring.Optimizer
function trainer.adafactor(list, options) end

---@class moonring.AdagradOptions: moonring.NativeRuleOptions
---@field lr_decay? number default 0
---@field initial? number initial value of the sum of squares; default 0
---@field epsilon? number default 1e-10
---@field weight_decay? number not applied to biases and norms; default 0

--- Adagrad, as in torch.optim.Adagrad; weight decay is added to the gradient. State: 4 bytes for
--- each parameter.
---@param list moonring.Parameters
---@param options? moonring.AdagradOptions
---@return moonring.Optimizer
function trainer.adagrad(list, options) end

---@class moonring.AdamMiniOptions: moonring.NativeRuleOptions
---@field hidden_size integer the model's hidden size
---@field heads integer the model's number of query heads
---@field beta1? number default 0.9
---@field beta2? number default 0.999
---@field epsilon? number default 1e-8
---@field weight_decay? number not applied to biases and norms; default 0

--- Adam-mini (arXiv 2406.16793). State: 4 bytes for each parameter.
---@param list moonring.Parameters
---@param options moonring.AdamMiniOptions
---@return moonring.Optimizer
function trainer.adam_mini(list, options) end

---@class moonring.AdemamixOptions: moonring.NativeRuleOptions
---@field beta1? number default 0.9
---@field beta2? number default 0.999
---@field beta3? number decay rate of the slow running mean; default 0.9999
---@field alpha? number weight of the slow running mean in the update; default 5
---@field t_alpha? integer steps over which alpha is warmed up; default 0
---@field t_beta3? integer steps over which beta3 is warmed up; default 0
---@field epsilon? number default 1e-8
---@field weight_decay? number not applied to biases and norms; default 0

--- AdEMAMix (arXiv 2409.03137), with decoupled weight decay. State: 12 bytes for each parameter.
---@param list moonring.Parameters
---@param options? moonring.AdemamixOptions
---@return moonring.Optimizer
function trainer.ademamix(list, options) end

---@class moonring.ApolloOptions: moonring.NativeRuleOptions
---@field rank? integer default 16
---@field gap? integer steps between updates of the projection; default 200
---@field scale? number default 32
---@field source? "random" | "svd" whether the projection is random or comes from an SVD of the
---   gradient; default "random"
---@field projection? "std" | "reverse_std" | "left" | "right" | "full" side of the gradient matrix
---   that is projected; not reverse_std and not full; default "std"
---@field scale_by? "channel" | "tensor" whether the learning rate is scaled for each channel or for
---   the whole tensor; default "channel"
---@field scale_front? boolean whether the update is multiplied by `scale` before the growth of its
---   norm is limited; default false
---@field targets? string[] substrings of the names of the linear layers that are projected;
---   default: all except the head
---@field beta1? number default 0.9
---@field beta2? number default 0.999
---@field epsilon? number default 1e-8
---@field weight_decay? number not applied to biases and norms; default 0
---@field seed? integer seed of random projections; default 0

--- APOLLO (arXiv 2412.05270) for linear layers, Adam for other parameters.
---@param list moonring.Parameters
---@param options? moonring.ApolloOptions
---@return moonring.Optimizer
function trainer.apollo(list, options) end

---@class moonring.BadamRatioOptions: moonring.NativeRuleOptions
---@field ratio? number fraction of the elements of each weight that are trained at the same time;
---   default 0.05
---@field mask? "adjacent" | "scatter" how these elements are selected; default "adjacent"
---@field beta1? number default 0.9
---@field beta2? number default 0.999
---@field epsilon? number default 1e-8
---@field seed? integer seed of the random order in which "scatter" selects; default 0

--- BAdam's ratio mode (arXiv 2404.02827), as in the package badam: Adam is applied to a fraction of
--- the elements of each weight, and every hundred steps to another fraction. There is no weight
--- decay; embedding and head are not trained. State: 8 bytes for each element that is being
--- trained.
---@param list moonring.Parameters
---@param options? moonring.BadamRatioOptions
---@return moonring.Optimizer
function trainer.badam_ratio(list, options) end

---@class moonring.CondaOptions: moonring.NativeRuleOptions
---@field gap? integer steps between updates of the basis; default 2000
---@field scale? number default 1
---@field targets? string[] substrings of the names of the linear layers that are projected;
---   default: all except the head
---@field beta1? number default 0.9
---@field beta2? number default 0.999
---@field epsilon? number default 1e-8
---@field weight_decay? number not applied to biases and norms; default 0

--- Conda (arXiv 2509.24218) for linear layers, Adam for other parameters.
---@param list moonring.Parameters
---@param options? moonring.CondaOptions
---@return moonring.Optimizer
function trainer.conda(list, options) end

---@class moonring.FiraOptions: moonring.NativeRuleOptions
---@field rank? integer default 16
---@field gap? integer steps between updates of the projection; default 200
---@field alpha? number default 1
---@field projection? "std" | "reverse_std" | "left" | "right" | "full" side of the gradient matrix
---   that is projected; not full; default "std"
---@field targets? string[] substrings of the names of the linear layers that are projected;
---   default: all except the head
---@field beta1? number default 0.9
---@field beta2? number default 0.999
---@field epsilon? number default 1e-8
---@field weight_decay? number not applied to biases and norms; default 0

--- Fira (arXiv 2410.01623) for linear layers, Adam for other parameters.
---@param list moonring.Parameters
---@param options? moonring.FiraOptions
---@return moonring.Optimizer
function trainer.fira(list, options) end

---@class moonring.GaloreOptions: moonring.NativeRuleOptions
---@field rank? integer default 16
---@field gap? integer steps between updates of the projection; default 200
---@field scale? number default 2
---@field projection? "std" | "reverse_std" | "left" | "right" | "full" side of the gradient matrix
---   that is projected; default "std"
---@field targets? string[] substrings of the names of the linear layers that are projected;
---   default: all except the head
---@field beta1? number default 0.9
---@field beta2? number default 0.999
---@field epsilon? number default 1e-8
---@field weight_decay? number not applied to biases and norms; default 0

--- GaLore (arXiv 2403.03507) for linear layers, Adam for other parameters.
---@param list moonring.Parameters
---@param options? moonring.GaloreOptions
---@return moonring.Optimizer
function trainer.galore(list, options) end

---@class moonring.GrassOptions: moonring.NativeRuleOptions
---@field rank? integer rows selected by the projection; default 16
---@field gap? integer steps between updates of the projection; default 200
---@field alpha? number default 1
---@field sampling? "top" | "multinomial" how rows are selected by their norms; default "top"
---@field targets? string[] substrings of the names of the linear layers that are projected;
---   default: all except the head
---@field beta1? number default 0.9
---@field beta2? number default 0.999
---@field epsilon? number default 1e-8
---@field weight_decay? number not applied to biases and norms; default 0
---@field seed? integer seed of the sampling; default 0

--- Grass (arXiv 2406.17660) for linear layers, Adam for other parameters.
---@param list moonring.Parameters
---@param options? moonring.GrassOptions
---@return moonring.Optimizer
function trainer.grass(list, options) end

---@class moonring.LionOptions: moonring.NativeRuleOptions
---@field beta1? number default 0.9
---@field beta2? number default 0.99
---@field weight_decay? number not applied to biases and norms; default 0

--- Lion (arXiv 2302.06675), with decoupled weight decay. State: 4 bytes for each parameter.
---@param list moonring.Parameters
---@param options? moonring.LionOptions
---@return moonring.Optimizer
function trainer.lion(list, options) end

---@class moonring.MuonOptions: moonring.NativeRuleOptions
---@field form? "torch" | "llamafactory" the implementation that is followed; default "torch"
---@field scale? "original" | "match_rms_adamw" how the update is scaled; default "original"
---@field momentum? number default 0.95
---@field nesterov? boolean default true
---@field iterations? integer Newton-Schulz iterations; default 5
---@field bf16? boolean whether the Newton-Schulz iterations are computed in bf16; false: in the
---   gradient's dtype; default true
---@field beta1? number default 0.9
---@field beta2? number default 0.999
---@field epsilon? number default 1e-8
---@field weight_decay? number not applied to biases and norms; default 0

--- Muon for matrices and stacks of matrices, Adam for other parameters.
---@param list moonring.Parameters
---@param options? moonring.MuonOptions
---@return moonring.Optimizer
function trainer.muon(list, options) end

---@class moonring.OnlineSubspaceOptions: moonring.NativeRuleOptions
---@field rank? integer default 128
---@field gap? number inverse of the projection's learning rate; default 50
---@field scale? number default 1
---@field learning_rate number the run's peak learning rate; the projection is updated with the
---   learning rate (rate of the step / learning_rate) / gap
---@field targets? string[] substrings of the names of the linear layers that are projected;
---   default: all except the head
---@field beta1? number default 0.9
---@field beta2? number default 0.999
---@field epsilon? number default 1e-8
---@field weight_decay? number not applied to biases and norms; default 0

--- Online subspace descent (arXiv 2408.12857) for linear layers, Adam for other parameters.
---@param list moonring.Parameters
---@param options moonring.OnlineSubspaceOptions
---@return moonring.Optimizer
function trainer.online_subspace(list, options) end

---@class moonring.RmspropOptions: moonring.NativeRuleOptions
---@field alpha? number decay rate of the running mean of squares; default 0.99
---@field epsilon? number default 1e-8
---@field momentum? number default 0
---@field centered? boolean whether the square of a running mean of the gradient is subtracted from
---   the mean of squares; default false
---@field weight_decay? number not applied to biases and norms; default 0

--- RMSprop, as in torch.optim.RMSprop; weight decay is added to the gradient. State: 4 bytes for
--- each parameter, plus 4 with momentum, plus 4 if centered.
---@param list moonring.Parameters
---@param options? moonring.RmspropOptions
---@return moonring.Optimizer
function trainer.rmsprop(list, options) end

---@class moonring.ScheduleFreeOptions: moonring.NativeRuleOptions
---@field kind? "adamw" | "sgd" | "radam" default "adamw"
---@field beta1? number greater than 0; for "sgd" its momentum; default 0.9
---@field beta2? number default 0.999
---@field epsilon? number default 1e-8
---@field warmup_steps? integer steps of warm-up; not for "radam"; default 0
---@field r? number the weight of a step in the average contains the step number to this power;
---   default 0
---@field weight_lr_power? number the weight of a step in the average contains the largest learning
---   rate so far to this power; default 2
---@field weight_decay? number not applied to biases and norms; default 0

--- Schedule-free optimizers (arXiv 2405.15682), as in the package schedulefree. Training computes
--- gradients at one set of weights; evaluation uses another, an average of the weights so far
--- (Optimizer:average). State: 8 bytes for each parameter, 4 for "sgd".
---@param list moonring.Parameters
---@param options? moonring.ScheduleFreeOptions
---@return moonring.Optimizer
function trainer.schedule_free(list, options) end

---@class moonring.SgdMomentumOptions: moonring.NativeRuleOptions
---@field momentum? number default 0.9
---@field dampening? number default 0
---@field nesterov? boolean not together with dampening; default false
---@field weight_decay? number not applied to biases and norms; default 0

--- Gradient descent with momentum, as in torch.optim.SGD; weight decay is added to the gradient.
--- State: 4 bytes for each parameter.
---@param list moonring.Parameters
---@param options? moonring.SgdMomentumOptions
---@return moonring.Optimizer
function trainer.sgd_momentum(list, options) end

---@class moonring.SpamOptions: moonring.NativeRuleOptions
---@field beta1? number default 0.9
---@field beta2? number default 0.999
---@field epsilon? number default 1e-6
---@field threshold? number an element of a gradient is clipped if its square exceeds the running
---   mean of squares by more than this factor; 0: no clipping; default 5000
---@field reset? integer steps after which the running means are reset to zero; default 500
---@field warmup? integer steps after a reset in which the learning rate is warmed up; default 150
---@field quiet? integer steps after a reset in which nothing is clipped; default 20
---@field density? number fraction of each matrix that is trained until the next reset, which
---   selects another fraction; default 1
---@field seed? integer seed of the selection; default 0
---@field weight_decay? number not applied to biases and norms; default 0

--- SPAM (arXiv 2501.06842): Adam with spike-aware clipping and momentum resets, with decoupled
--- weight decay. State: 8 bytes for each parameter that is trained.
---@param list moonring.Parameters
---@param options? moonring.SpamOptions
---@return moonring.Optimizer
function trainer.spam(list, options) end

---@class moonring.SwanOptions: moonring.NativeRuleOptions
---@field alpha? number factor of the learning rate; default 0.05
---@field ns_steps? integer number of iterations that whiten the gradient; default 20
---@field ns_beta? number step size of these iterations, at most 0.866; they converge for 0.5;
---   default 0.5
---@field beta1? number default 0.9
---@field beta2? number default 0.999
---@field epsilon? number default 1e-8
---@field weight_decay? number not applied to biases and norms; default 0

--- SWAN (arXiv 2412.13148) for matrices and stacks of matrices, which need no state; Adam for other
--- parameters.
---@param list moonring.Parameters
---@param options? moonring.SwanOptions
---@return moonring.Optimizer
function trainer.swan(list, options) end

return trainer
