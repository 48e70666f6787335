---@meta moonring.native.trainer

--- Optimizers, schedules, gradients, and what a run writes.
---@class moonring.trainer
local trainer = {}

---@class moonring.AdamWOptions
---@field beta1? number 0.9 where absent
---@field beta2? number 0.999 where absent
---@field epsilon? number 1e-8 where absent
---@field weight_decay? number decoupled (arXiv:1711.05101); not on biases and norms; 0 where absent
--- whose memory the state takes, where it is offloaded to a disk; beside the weights where absent
---@field zero? moonring.Zero
--- what lora_B's and one-dimensional parameters' rate is multiplied by (arXiv 2402.12354); 1 where
--- absent
---@field loraplus_lr_ratio? number
---@field state? "fp32" | "bf16" | "8bit" in what m and v are held between steps
---@field full_embeddings? boolean those of embeddings are held in fp32 whatever `state` says

--- AdamW as torch.optim.AdamW has it, with fp32 state (fp64 for fp64 weights), 8 bytes a parameter
--- from its first step on.
---@param list moonring.Parameters
---@param options? moonring.AdamWOptions
---@return moonring.Optimizer
function trainer.adamw(list, options) end

---@class moonring.SgdOptions
---@field weight_decay? number decoupled; 0 where absent
---@field loraplus_lr_ratio? number as AdamW's; 1 where absent

--- Plain gradient descent: w <- w (1 - lr decay) - lr g. No momentum, no state.
---@param list moonring.Parameters
---@param options? moonring.SgdOptions
---@return moonring.Optimizer
function trainer.sgd(list, options) end

--- What every optimizer of a rule below takes beside its own options. Its state is in the
--- gradient's dtype, fp32 but for fp64 weights.
---@class moonring.NativeRuleOptions
---@field zero? moonring.Zero what shards the parameters; nothing where absent
---@field loraplus_lr_ratio? number as AdamW's; 1 where absent
---@field weight_decay? number not on biases and norms; 0 where absent

---@class moonring.SgdMomentumOptions: moonring.NativeRuleOptions
---@field momentum? number 0.9 where absent
---@field dampening? number 0 where absent
---@field nesterov? boolean not with dampening; false where absent

--- Gradient descent with momentum, as torch.optim.SGD; weight decay is part of the gradient. Four
--- bytes a parameter.
---@param list moonring.Parameters
---@param options? moonring.SgdMomentumOptions
---@return moonring.Optimizer
function trainer.sgd_momentum(list, options) end

---@class moonring.AdagradOptions: moonring.NativeRuleOptions
---@field lr_decay? number 0 where absent
---@field initial? number the sum that it begins with; 0 where absent
---@field epsilon? number 1e-10 where absent

--- Adagrad, as torch.optim.Adagrad; weight decay is part of the gradient. Four bytes a parameter.
---@param list moonring.Parameters
---@param options? moonring.AdagradOptions
---@return moonring.Optimizer
function trainer.adagrad(list, options) end

---@class moonring.RmspropOptions: moonring.NativeRuleOptions
---@field alpha? number of the mean of squares; 0.99 where absent
---@field epsilon? number 1e-8 where absent
---@field momentum? number 0 where absent
---@field centered? boolean squares less the mean's; false where absent

--- RMSprop, as torch.optim.RMSprop; weight decay is part of the gradient. Four bytes a parameter,
--- four more with momentum, and where it is centered.
---@param list moonring.Parameters
---@param options? moonring.RmspropOptions
---@return moonring.Optimizer
function trainer.rmsprop(list, options) end

---@class moonring.BadamRatioOptions
---@field zero? moonring.Zero what shards the parameters; nothing where absent
---@field loraplus_lr_ratio? number as AdamW's; 1 where absent
---@field ratio? number the part of each weight's numbers that learns at a time; 0.05 where absent
---@field mask? "adjacent" | "scatter" which of them; "adjacent" where absent
---@field beta1? number 0.9 where absent
---@field beta2? number 0.999 where absent
---@field epsilon? number 1e-8 where absent
---@field seed? integer of the order that "scatter" goes by; 0 where absent

--- BAdam's ratio mode (arXiv 2404.02827), as the package badam: Adam on a part of each weight, the
--- next one each hundred steps. No weight decay; embedding and head do not learn. Eight bytes a
--- number that learns.
---@param list moonring.Parameters
---@param options? moonring.BadamRatioOptions
---@return moonring.Optimizer
function trainer.badam_ratio(list, options) end

---@class moonring.LionOptions: moonring.NativeRuleOptions
---@field beta1? number 0.9 where absent
---@field beta2? number 0.99 where absent

--- Lion (arXiv 2302.06675), with decoupled weight decay. Four bytes a parameter.
---@param list moonring.Parameters
---@param options? moonring.LionOptions
---@return moonring.Optimizer
function trainer.lion(list, options) end

---@class moonring.AdemamixOptions: moonring.NativeRuleOptions
---@field beta1? number 0.9 where absent
---@field beta2? number 0.999 where absent
---@field beta3? number of the slow mean; 0.9999 where absent
---@field alpha? number its share; 5 where absent
---@field t_alpha? integer steps in which the share rises; 0 where absent
---@field t_beta3? integer steps in which beta3 rises; 0 where absent
---@field epsilon? number 1e-8 where absent

--- AdEMAMix (arXiv 2409.03137), with decoupled weight decay. Twelve bytes a parameter.
---@param list moonring.Parameters
---@param options? moonring.AdemamixOptions
---@return moonring.Optimizer
function trainer.ademamix(list, options) end

---@class moonring.SpamOptions: moonring.NativeRuleOptions
---@field beta1? number 0.9 where absent
---@field beta2? number 0.999 where absent
---@field epsilon? number 1e-6 where absent
--- a gradient's square is at most so often the mean of squares; 0: none is clipped; 5000 where
--- absent
---@field threshold? number
---@field reset? integer steps after which the means begin anew; 500 where absent
---@field warmup? integer steps after that in which the rate rises; 150 where absent
---@field quiet? integer steps after that in which nothing is clipped; 20 where absent
--- the part of each matrix that learns until the next reset, when another is drawn; 1 where absent
---@field density? number
---@field seed? integer of what is drawn; 0 where absent

--- SPAM (arXiv 2501.06842): Adam that clips spikes and forgets its means, with decoupled weight
--- decay. Eight bytes a parameter that learns.
---@param list moonring.Parameters
---@param options? moonring.SpamOptions
---@return moonring.Optimizer
function trainer.spam(list, options) end

---@class moonring.ScheduleFreeOptions: moonring.NativeRuleOptions
---@field kind? "adamw" | "sgd" | "radam" "adamw" where absent
---@field beta1? number more than 0; of "sgd" its momentum; 0.9 where absent
---@field beta2? number 0.999 where absent
---@field epsilon? number 1e-8 where absent
---@field warmup_steps? integer steps in which the rate rises; not of "radam"; 0 where absent
---@field r? number the power of the step in an average's shares; 0 where absent
---@field weight_lr_power? number that of the largest rate so far; 2 where absent

--- Schedule-free learning (arXiv 2405.15682), as the package schedulefree: weights learn at one
--- point and are evaluated at another, their average (Optimizer:average). Eight bytes a parameter,
--- four of "sgd".
---@param list moonring.Parameters
---@param options? moonring.ScheduleFreeOptions
---@return moonring.Optimizer
function trainer.schedule_free(list, options) end

--- What optimizers have that use Adam on some weights, or in a smaller space.
---@class moonring.AdamTermsOptions: moonring.NativeRuleOptions
---@field beta1? number 0.9 where absent
---@field beta2? number 0.999 where absent
---@field epsilon? number 1e-8 where absent

---@class moonring.MuonOptions: moonring.AdamTermsOptions
---@field form? "torch" | "llamafactory" whose class; "torch" where absent
---@field scale? "original" | "match_rms_adamw" of a step; "original" where absent
---@field momentum? number 0.95 where absent
---@field nesterov? boolean true where absent
---@field iterations? integer of Newton-Schulz; 5 where absent
---@field bf16? boolean in which they run; true where absent; false: the gradient's dtype

--- Muon of matrices and stacks of them, Adam of the others.
---@param list moonring.Parameters
---@param options? moonring.MuonOptions
---@return moonring.Optimizer
function trainer.muon(list, options) end

---@class moonring.GaloreOptions: moonring.AdamTermsOptions
---@field rank? integer 16 where absent
---@field gap? integer steps of a projection; 200 where absent
---@field scale? number 2 where absent
---@field projection? "std" | "reverse_std" | "left" | "right" | "full" the side; "std" where absent
---@field targets? string[] parts of linear maps' names; all but the head where absent

--- GaLore (arXiv 2403.03507) of linear maps, Adam of the others.
---@param list moonring.Parameters
---@param options? moonring.GaloreOptions
---@return moonring.Optimizer
function trainer.galore(list, options) end

---@class moonring.ApolloOptions: moonring.AdamTermsOptions
---@field rank? integer 16 where absent
---@field gap? integer steps of a projection; 200 where absent
---@field scale? number 32 where absent
---@field source? "random" | "svd" of a projection; "random" where absent
---@field projection? "std" | "left" | "right" the side; "std" where absent
---@field scale_by? "channel" | "tensor" "channel" where absent
---@field scale_front? boolean the scale before the limit of the norm's growth; false where absent
---@field targets? string[] parts of linear maps' names; all but the head where absent
---@field seed? integer 0 where absent

--- APOLLO (arXiv 2412.05270) of linear maps, Adam of the others.
---@param list moonring.Parameters
---@param options? moonring.ApolloOptions
---@return moonring.Optimizer
function trainer.apollo(list, options) end

---@class moonring.AdamMiniOptions: moonring.AdamTermsOptions
---@field hidden_size integer the model's
---@field heads integer of its queries

--- Adam-mini (arXiv 2406.16793). Four bytes a parameter.
---@param list moonring.Parameters
---@param options moonring.AdamMiniOptions
---@return moonring.Optimizer
function trainer.adam_mini(list, options) end

---@class moonring.AdafactorOptions: moonring.NativeRuleOptions
---@field form? "transformers" | "torch" whose class; "transformers" where absent
---@field decay_rate? number 0.8 where absent
---@field clip? number of an update's root mean square; 1 where absent

--- Adafactor (arXiv 1804.04235). Next to no bytes.
---@param list moonring.Parameters
---@param options? moonring.AdafactorOptions
---@return moonring.Optimizer
function trainer.adafactor(list, options) end

---@class moonring.FiraOptions: moonring.AdamTermsOptions
---@field rank? integer 16 where absent
---@field gap? integer steps of a projection; 200 where absent
---@field alpha? number 1 where absent
---@field projection? "std" | "reverse_std" | "left" | "right" the side; "std" where absent
---@field targets? string[] parts of linear maps' names; all but the head where absent

--- Fira (arXiv 2410.01623) of linear maps, Adam of the others.
---@param list moonring.Parameters
---@param options? moonring.FiraOptions
---@return moonring.Optimizer
function trainer.fira(list, options) end

---@class moonring.CondaOptions: moonring.AdamTermsOptions
---@field gap? integer steps of a basis; 2000 where absent
---@field scale? number 1 where absent
---@field targets? string[] parts of linear maps' names; all but the head where absent

--- Conda (arXiv 2509.24218) of linear maps, Adam of the others.
---@param list moonring.Parameters
---@param options? moonring.CondaOptions
---@return moonring.Optimizer
function trainer.conda(list, options) end

---@class moonring.OnlineSubspaceOptions: moonring.AdamTermsOptions
---@field rank? integer 128 where absent
---@field gap? number the inverse of the projection's rate; 50 where absent
---@field scale? number 1 where absent
---@field learning_rate number the run's, of which a step's rate is a part
---@field targets? string[] parts of linear maps' names; all but the head where absent

--- Online subspace descent (arXiv 2408.12857) of linear maps, Adam of the others.
---@param list moonring.Parameters
---@param options moonring.OnlineSubspaceOptions
---@return moonring.Optimizer
function trainer.online_subspace(list, options) end

---@class moonring.SwanOptions: moonring.AdamTermsOptions
---@field alpha? number the share of the rate; 0.05 where absent
---@field ns_steps? integer of the iteration that whitens; 20 where absent
---@field ns_beta? number its factor, 0.866 at most; 0.5, which converges, where absent

--- SWAN (arXiv 2412.13148) of matrices and stacks of them, Adam of the others. No bytes a matrix.
---@param list moonring.Parameters
---@param options? moonring.SwanOptions
---@return moonring.Optimizer
function trainer.swan(list, options) end

---@class moonring.GrassOptions: moonring.AdamTermsOptions
---@field rank? integer rows of a projection; 16 where absent
---@field gap? integer steps of a projection; 200 where absent
---@field alpha? number 1 where absent
---@field sampling? "top" | "multinomial" of rows, by their norms; "top" where absent
---@field targets? string[] parts of linear maps' names; all but the head where absent
---@field seed? integer of what is drawn; 0 where absent

--- Grass (arXiv 2406.17660) of linear maps, Adam of the others.
---@param list moonring.Parameters
---@param options? moonring.GrassOptions
---@return moonring.Optimizer
function trainer.grass(list, options) end

--- Parameters without numbers, for an optimizer that is asked what it will keep.
---@param names string[]
---@param shapes integer[][]
---@return moonring.Parameters
function trainer.meta_parameters(names, shapes) end

--- Bytes of an optimizer's state from its first step on. Errors: INVALID_ARGUMENT for one that is
--- not made by one of the rules above.
---@param optimizer moonring.Optimizer
---@return integer
function trainer.new_state_bytes(optimizer) end

---@class moonring.OwnOptimizerOptions
---@field zero? moonring.Zero what shards the parameters; nothing where absent
--- of each parameter whether its rule sees it whole, on one of the ranks that share it; all by
--- parts where absent
---@field whole? boolean[]
---@field loraplus_lr_ratio? number as AdamW's; 1 where absent

--- An optimizer whose rule is a Lua function, for `moonring.optimizer`, which is what scripts call.
--- `call("state", i, weight)` gives the state of parameter i (from 1), tensors by name;
--- `call("step", i, weight, state, gradient, lr, k)` writes the weight and gives the state.
---@param list moonring.Parameters
---@param call function
---@param options? moonring.OwnOptimizerOptions
---@return moonring.Optimizer
function trainer.own_optimizer(list, call, options) end

--- What a rule is told of each parameter of a list, in its order.
---@param list moonring.Parameters
---@return { name: string, shape: integer[], numel: integer, decays: boolean, trainable: boolean }[]
function trainer.parameter_facts(list) end

---@class moonring.ScheduleOptions
---@field total_steps integer
--- as Transformers' get_scheduler has them; "linear" where absent
---@field kind? "linear" | "cosine" | "cosine_with_restarts" | "cosine_with_min_lr" |
---   "cosine_warmup_with_min_lr" | "polynomial" | "inverse_sqrt" | "warmup_stable_decay" |
---   "constant" | "constant_with_warmup"
---@field learning_rate? number the peak; 5e-5 where absent
---@field warmup_steps? integer steps in which the rate rises from 0; 0 where absent
--- the same as a part of total_steps, rounded up, where warmup_steps is 0; 0 where absent
---@field warmup_ratio? number
--- waves of a cosine: cosine, cosine_with_min_lr, cosine_warmup_with_min_lr, warmup_stable_decay
--- (0.5 where absent), restarts of cosine_with_restarts (1)
---@field num_cycles? number
--- cosine_with_min_lr, cosine_warmup_with_min_lr: where the rate ends; this or min_lr_rate is
--- wanted
---@field min_lr? number
---@field min_lr_rate? number the same as a part of learning_rate
--- cosine_warmup_with_min_lr: the part of learning_rate that the warm-up begins with; 1 / warm-up
--- steps where absent
---@field warmup_lr_rate? number
---@field lr_end? number polynomial: where the rate ends; 1e-7 where absent
---@field power? number polynomial: its exponent; 1 where absent
--- warmup_stable_decay: steps at the peak; a third of those after the warm-up where absent
---@field num_stable_steps? integer
--- warmup_stable_decay: steps in which it falls; the rest of them where absent
---@field num_decay_steps? integer
--- warmup_stable_decay: how it rises; linear where absent
---@field warmup_type? "linear" | "cosine" | "1-sqrt"
--- warmup_stable_decay: how it falls; cosine where absent
---@field decay_type? "linear" | "cosine" | "1-sqrt"
--- warmup_stable_decay: the part of learning_rate that it begins and ends with; 0 where absent
---@field min_lr_ratio? number

--- The learning rate of each step, as Transformers' get_scheduler has it: with w warm-up steps of
--- n, step k = 0, 1, ... takes lr k / w while k < w, then what its kind says (trainer/schedule.h
--- has the formulas). An option that the kind does not have is refused.
---@param options moonring.ScheduleOptions
---@return moonring.Schedule
function trainer.schedule(options) end

--- Sums every gradient over all ranks, in place; nothing is averaged. A parameter without a
--- gradient takes part as zeros. Collective over all ranks.
---@param list moonring.Parameters
---@param mesh moonring.Mesh
function trainer.sum_gradients(list, mesh) end

---@class moonring.ClipOptions
--- gradients of a larger norm are scaled down to it; 0: never; 1 where absent
---@field max_norm? number

--- Clips as torch.nn.utils.clip_grad_norm_ does; every rank comes to the same norm after
--- `sum_gradients`. Errors: ABORTED, naming parameters, where the norm is not finite.
---@param list moonring.Parameters
---@param options? moonring.ClipOptions
---@return number norm before clipping, in fp64
function trainer.clip_gradients(list, options) end

--- Whether a weight is an embedding's, told by the name of its module.
---@param name string
---@return boolean
function trainer.is_embedding(name) end

--- sqrt of the sum of all gradients' squares, in fp64.
---@param list moonring.Parameters
---@return number
function trainer.global_norm(list) end

--- The gradient's norm of each parameter that learns, by name.
---@param list moonring.Parameters
---@return table<string, number>
function trainer.norms(list) end

---@class moonring.OuterStepsOptions
---@field mesh moonring.Mesh
---@field states moonring.States of a Zero whose groups are apart
---@field learning_rate? number of the common point's step; 1 where absent
---@field momentum? number 0 or more and less than 1; 0 where absent
---@field nesterov? boolean the momentum is Nesterov's; false where absent
---@field clip? number of each number of the momentum; 0: none, as where absent
---@field overlap? boolean a round's differences travel during the next; false where absent

--- Rounds over the sp groups of a mesh, whose common point is the present weights. Collective over
--- all ranks.
---@param options moonring.OuterStepsOptions
---@return moonring.OuterSteps
function trainer.outer_steps(options) end

--- Clipping by the history of the gradient's norm (ZClip, arXiv 2504.02507; trainer/zclip.h).
---@return moonring.ZClip
function trainer.zclip() end

---@class moonring.ZeroOptions
---@field mesh moonring.Mesh
--- 1: the optimizer's state is sharded over ranks; 2: gradients too; 3: weights too; 0 where
--- absent: nothing
---@field stage? integer
--- over which ranks; the groups are replicas of one another; "world" where absent
---@field group? "world" | "sp" | "node"
---@field ranks_per_machine? integer neighbouring ranks that are a node; all where absent
---@field streams? boolean matrices come from a GPU's host for each lease; stage 0 or 3
---@field cast_once? boolean what is `held` is kept in memory also where nothing is sharded
--- where the optimizer's state lies and its step is made; "none" where absent: beside the weights
---@field offload? "none" | "cpu" | "disk"
---@field folder? string of "disk": where the file, which has no name, is
--- neighbouring ranks that share each layer's experts; 1 where absent. A model that is loaded with
--- this keeps its own
---@field expert_ranks? integer
--- sp groups have states of their own, which no other group's gradients come to; stages 1 to 3 are
--- over sp then. false where absent
---@field apart? boolean
---@field bucket_bytes? integer gradients that go through one reduce-scatter; 32 MiB where absent

--- ZeRO (arXiv 1910.02054): how the states of a run are sharded over ranks (trainer/zero_cost.h has
--- memory and bytes). `model.load` takes it as an option, so that in stage 3 weights are sharded as
--- they are read. Collective over all ranks.
---@param options moonring.ZeroOptions
---@return moonring.Zero
function trainer.zero(options) end

---@class moonring.HeatMapOptions
---@field columns string[] what each is called, left to right
---@field rows string[] the same, top to bottom
---@field shares number[][] from 0 to 1, a list a row; a cell that is not finite is left white
---@field title? string
---@field x_label? string
---@field y_label? string

--- Draws a table of shares as a PNG, red to green.
---@param path string
---@param options moonring.HeatMapOptions
function trainer.heat_map(path, options) end

--- One run's hold on a folder: run.lock in it. Gone with the process, however that ends, and with
--- the script's end.
---@class moonring.FolderLock
local FolderLock = {}

function FolderLock:close() end

--- Whether the folder still has run.lock: nobody has removed or renamed the one or the other.
---@return boolean
function FolderLock:stands() end

--- Where run.lock is now: in the folder, in what that was renamed to, or "" where it is removed.
---@return string
function FolderLock:place() end

--- Takes a folder for this process, if no other has it; waits for nobody. Makes it where it is
--- missing, with those above it; what was made goes with the lock, where nothing has come into it.
--- Errors: FAILED_PRECONDITION where another has it, with its process, its machine and since when;
--- PERMISSION_DENIED where it cannot be made or written in.
---@param folder string
---@return moonring.FolderLock? lock nil where none is to be had there: a file system without locks
---@return string? why
function trainer.lock_folder(folder) end

--- Fails as lock_folder would where another process has the folder now. Changes nothing there.
---@param folder string
function trainer.check_folder_lock(folder) end

---@class moonring.LogOptions
---@field dir string an existing folder
---@field total_steps integer
---@field num_train_epochs? number for trainer_state.json; 0 where absent
---@field logging_steps? integer the same; 1 where absent
---@field eval_steps? integer the same; logging_steps where absent
---@field save_steps? integer the same; 500 where absent
---@field train_batch_size? integer the same; 1 where absent
--- of a forward and a backward pass; total_flos is so many times the tokens
---@field flops_per_token? number
--- whether lines have total_tokens and throughput, and log_history num_input_tokens_seen; false
--- where absent
---@field tells_tokens? boolean
--- further rates in train_results.json: tokens a second over this number, by their names
---@field token_rates? table<string, number>
--- steps made before, of a run that goes on: the lines up to there are kept; 0 where absent
---@field first_step? integer
---@field first_tokens? integer that these steps took; 0 where absent
---@field first_epoch? number epochs done after them; 0 where absent

--- The log of a run, under LLaMA-Factory's and Transformers' names: trainer_log.jsonl as it comes,
--- trainer_state.json, train_results.json and all_results.json at the end. By one rank.
---@param options moonring.LogOptions
---@return moonring.Log
function trainer.log(options) end

---@class moonring.ProgressOptions
---@field kind? "auto" | "bar" | "plain" | "json" | "off" as the key progress; auto where absent
---@field gpu? boolean the GPU's memory is shown, not the process's; false where absent

--- How far a run is: a bar on a terminal, plain lines elsewhere, on stderr; json: a line a step on
--- stdout. A thread redraws it while nothing calls.
---@param options? moonring.ProgressOptions
---@return moonring.Progress
function trainer.progress(options) end

--- A count of what is done, which progress shows: data.load, model.load and Model:save take one.
---@return moonring.WorkCount
function trainer.work_count() end

---@class moonring.EventFileOptions
---@field folder string which must be there
--- steps already made, of a run that goes on: later ones are cut off the folder's event files; 0
--- where absent
---@field first_step? integer

--- A new event file of TensorBoard's in a folder. Errors: the disk's.
---@param options moonring.EventFileOptions
---@return moonring.EventFile
function trainer.event_file(options) end

--- A file of lines, each there as soon as it is appended. Errors: the disk's.
---@param path string
---@param keep? boolean go on after its lines; begin anew where absent
---@return moonring.LineFile
function trainer.line_file(path, keep) end

--- Starts a program that is told lines on its stdin; nothing ever waits for it but its `finish`.
--- Errors: NOT_FOUND; PERMISSION_DENIED, under --sandbox too; FAILED_PRECONDITION where the runtime
--- is embedded.
---@param command string[] the program, looked for on the path, and its arguments
---@return moonring.LineProgram
function trainer.line_program(command) end

---@class moonring.MatmulRateOptions
---@field dtype? string fp32 where absent
---@field device? string cpu where absent
---@field seconds? number that it takes, or one product; 0.05 where absent
---@field device_peak? number bytes of a GPU that its tensors and the matrices stay within

--- Operations a second of products of large square matrices, as measured now; 0 where a GPU has no
--- room for them.
---@param options? moonring.MatmulRateOptions
---@return number
function trainer.matmul_rate(options) end

---@class moonring.HoldFilesOptions
---@field folder string files below it
---@field budget number bytes that they may take

--- Files that this thread writes, between `begin` and `finish`, into memory: those of a folder that
--- are written whole (system.write) or not flushed (safetensors.write, Model:save with flush =
--- false). What finds no room goes to the disk.
---@param options moonring.HoldFilesOptions
---@return moonring.HeldFiles
function trainer.hold_files(options) end

---@class moonring.HeldFiles
local HeldFiles = {}

--- From here on this thread's files of the folder go into memory.
function HeldFiles:begin() end

--- No longer.
function HeldFiles:finish() end

--- Bytes that were ever held.
---@return integer
function HeldFiles:bytes() end

--- Whether something found no room.
---@return boolean
function HeldFiles:was_full() end

--- Gives the memory back, unless a publisher has it.
function HeldFiles:close() end

---@class moonring.PublisherOptions
---@field draft string the folder that all ranks wrote into
---@field folder string its name to be; a folder of that name goes
---@field names string[] this rank's files in it
---@field held? moonring.HeldFiles those of this rank that are in memory
---@field step integer
---@field rank? integer 0 where absent
---@field ranks? integer 1 where absent
---@field mesh? moonring.Mesh for a rank whose files cannot be sealed to tell rank 0

--- Flushes this rank's files to the disk and sums them, on a thread of its own; on rank 0, once all
--- ranks have, writes manifest.json and gives the folder its name. The ranks meet in the folder;
--- one that cannot write there leaves rank 0 a note.
---@param options moonring.PublisherOptions
---@return moonring.Publisher
function trainer.publish_checkpoint(options) end

--- Removes a checkpoint, if it is there; at no moment a part of it bears the name of a whole one.
---@param folder string
function trainer.remove_checkpoint(folder) end

--- Raises where a folder is no whole checkpoint, and says why. Reads every byte of it.
---@param folder string
function trainer.check_checkpoint(folder) end

---@class moonring.Publisher
local Publisher = {}

--- Whether the checkpoint is whole (on rank 0; elsewhere: this rank's part of it), or failed to
--- become so.
---@return boolean
function Publisher:done() end

--- Waits. Raises what the disk failed with.
function Publisher:wait() end

--- Waits for this rank's files alone.
function Publisher:close() end

--- The most memory that this process ever held, in bytes; 0 where the kernel does not say.
---@return integer
function trainer.peak_memory() end

--- What malloc keeps free of this process's memory, in bytes.
---@return integer
function trainer.held_memory() end

--- What LibTorch's allocator held of this rank's GPU at the most since the last call, in bytes:
--- allocated (by tensors) and reserved (and what is kept for further ones); nil where no GPU was
--- used.
---@return { allocated: integer, reserved: integer }?
function trainer.take_device_peaks() end

--- What this rank's GPU is: name, major and minor (compute capability), multiprocessors, driver and
--- runtime (CUDA's versions, 13000 for 13.0); nil in a build without CUDA, and without a GPU.
---@return table?
function trainer.gpu() end

--- Whether operators on a GPU give the same bits each time, at the price of time; for the whole
--- process, before anything is computed there. A CPU's do anyway.
---@param wanted boolean
function trainer.deterministic(wanted) end

--- Gives what malloc keeps free back to the kernel, as far as whole pages are free.
---@param seconds? number only where taking it again would last no longer
function trainer.release_memory(seconds) end

--- The bytes of the host's live tensors by what they are for: weights, gradients, optimizer,
--- checkpoint_inputs, activations, attention, logits, communication, other. What is on a GPU is not
--- counted.
---@return table<string, integer>
function trainer.live_memory() end

--- Begins to watch this process's memory, until it is closed.
---@return moonring.MemoryWatch
function trainer.memory_watch() end

---@class moonring.MemoryWatch
local MemoryWatch = {}

--- The most anonymous and shared memory since the last call, in bytes.
---@return integer
function MemoryWatch:take_peak() end

--- What the memory was for at its peak so far, above the level after start-up, in bytes: by part,
--- as live_memory and data_and_libraries, scripts, held_by_allocator, checkpoint_copy; and totals:
--- explained (the parts' sum), kernel (the greatest that the kernel counted, anonymous and shared),
--- start_level, and tensors (the most that tensors ever took); of a GPU device_allocated and
--- device_reserved, its allocator's own peaks since `take_device_peaks`, and what its memory was
--- for when the most of it was taken, by live_memory's parts.
---@return table<string, integer> parts
---@return table<string, integer> totals
---@return table<string, integer>? device
function MemoryWatch:report() end

function MemoryWatch:close() end

---@class moonring.Optimizer
local Optimizer = {}

--- One step, in place. A frozen parameter, or one without a gradient, is left untouched. Clears no
--- gradient.
---@param lr number
function Optimizer:step(lr) end

--- Bytes of its state on this rank.
---@return integer
function Optimizer:state_bytes() end

--- Of one whose weights, while they learn, are others than those that the model is evaluated and
--- saved by (schedule_free): puts the latter in their place, or the former back; publish() has to
--- follow. Collective over all ranks.
---@param average boolean
---@return boolean whether any weight was written: of other optimizers none
function Optimizer:average(average) end

function Optimizer:close() end

---@class moonring.Zero
local Zero = {}

---@class moonring.StatesOptions
--- what the matrices that forwards see are held in; the shards are fp32 masters then. As the
--- weights are stored where absent
---@field held? "bf16" | "fp16"

--- The states of these parameters. In stage 3 those that are not sharded yet are now, the frozen
--- ones too. Collective over all ranks.
---@param list moonring.Parameters they must outlive the states
---@param options? moonring.StatesOptions
---@return moonring.States
function Zero:states(list, options) end

--- Whether ranks of different streams share gradients or weights: all must run as many forwards and
--- backwards then.
---@return boolean
function Zero:lockstep() end

--- How many ranks share each layer's experts.
---@return integer
function Zero:expert_ranks() end

--- What this rank has sent over those ranks so far.
---@return integer steps of communication
---@return integer bytes sent
function Zero:expert_traffic() end

function Zero:close() end

--- A step: forward and backward; sum_gradients; clip; the optimizer's step; publish;
--- clear_gradients.
---@class moonring.States
local States = {}

--- The shards of what learns, one-dimensional, for an optimizer.
---@return moonring.Parameters
function States:parameters() end

--- Sums every gradient over all ranks into the shards; nothing is averaged. Collective over all
--- ranks.
function States:sum_gradients() end

---@class moonring.ClipStatesOptions: moonring.ClipOptions
---@field norm? number what norm() gave, by `loss_scale` where there is one, where it is known
--- by which the gradients are too large; they are divided by it; 1 where absent
---@field loss_scale? number

--- As trainer.clip_gradients, over all shards. Collective over all ranks.
---@param options? moonring.ClipStatesOptions
---@return number norm before clipping, in fp64, the same on all ranks
function States:clip(options) end

--- sqrt of the sum of all gradients' squares, in fp64. Collective over all ranks. Errors: ABORTED,
--- naming parameters, where it is not finite.
---@return number
function States:norm() end

--- The same of each parameter, by name. Collective over all ranks.
---@return table<string, number>
function States:norms() end

--- The whole gradient of a parameter, after sum_gradients; nil where nobody had one. Collective
--- over all ranks.
---@param name string
---@return moonring.Tensor?
function States:gradient(name) end

--- After an optimizer's step: forwards see the new weights from here on. Collective over all ranks.
function States:publish() end

--- For the next step. The parameters' own too.
function States:clear_gradients() end

--- As Zero:lockstep.
---@return boolean
function States:lockstep() end

--- Bytes that this rank holds between blocks, of what learns: weights with their masters,
--- gradients.
---@return integer weights
---@return integer gradients
function States:bytes() end

--- Which part of the states this rank holds.
---@return integer index of the part, from 0
---@return integer parts
---@return boolean first whether this rank is the first of those that hold it: it writes checkpoints
function States:place() end

--- This rank's part of a checkpoint: weight/NAME, and the optimizer's by the optimizer's names. The
--- live tensors, not copies; of experts that several ranks share, parts of all of them. Collective
--- over the ranks that share any.
---@param optimizer moonring.Optimizer over parameters()
---@param keeps? boolean false: nothing is given back, and this rank only takes part
---@return table<string, moonring.Tensor>
function States:save(optimizer, keeps) end

--- Goes on from the parts that save gave on each rank, in their order, however many; then publish.
--- Raises where names, shapes or dtypes are others.
---@param optimizer moonring.Optimizer over parameters()
---@param saved table<string, moonring.Tensor>[]
function States:load(optimizer, saved) end

function States:close() end

--- Rounds of local steps: sp groups make steps of their own and come together at a round's end
--- (trainer/outer_steps.h has the equations). States:publish follows what writes weights.
---@class moonring.OuterSteps
local OuterSteps = {}

--- Ends a round: the groups' differences from the common point are averaged, the outer rule acts,
--- and all go on from the new common point. With overlap those of the round before act. Collective
--- over all ranks.
function OuterSteps:end_round() end

--- After the last round: what still travels acts. Collective over all ranks.
---@return boolean acted
function OuterSteps:finish() end

--- Puts the common point into the weights' place, or the group's own weights back.
---@param common boolean
---@return boolean written
function OuterSteps:show_common(common) end

--- This rank's part of a checkpoint, the same on all groups: outer/NAME, outer_momentum/NAME, and
--- outer_difference/NAME of what is under way, which is waited for.
---@return table<string, moonring.Tensor>
function OuterSteps:save() end

--- Goes on from the parts that save gave on each rank of a group, in their order, however many;
--- with none the present weights are the common point.
---@param saved table<string, moonring.Tensor>[]
function OuterSteps:load(saved) end

--- What this rank holds besides weights and optimizer.
---@return integer
function OuterSteps:state_bytes() end

--- What this rank has sent for rounds so far.
---@return integer steps of communication
---@return integer bytes sent
function OuterSteps:traffic() end

function OuterSteps:close() end

---@class moonring.ZClip
local ZClip = {}

--- The norm to which a gradient of this norm is to be clipped: less than it where it is a spike,
--- else infinity. Takes it into the history.
---@param norm number finite
---@return number
function ZClip:limit(norm) end

--- The history, for a checkpoint.
---@return string
function ZClip:state() end

--- Goes on from a checkpoint's history.
---@param text string what state() gave
function ZClip:load_state(text) end

function ZClip:close() end

---@class moonring.Schedule
local Schedule = {}

--- The learning rate of a step.
---@param step_index integer from 0
---@return number
function Schedule:at(step_index) end

--- Steps in which the rate rises.
---@return integer
function Schedule:warmup_steps() end

function Schedule:close() end

---@class moonring.Log
local Log = {}

---@class moonring.Record
---@field step integer steps made, from 1
---@field epoch number epochs done
---@field tokens integer that the run has seen so far
--- that what the run has computed so far takes at the devices' peak rate: of it come mfu and
--- mfu_causal
---@field seconds_at_peak? number
---@field causal_seconds_at_peak? number
---@field loss? number
---@field lr? number
---@field grad_norm? number
---@field peak_memory_bytes? number
---@field metrics? table<string, number> further numbers, by the names to write

--- Writes one line into trainer_log.jsonl and returns it in words. What is absent is not written. A
--- line that the disk does not take waits and is tried again with the next: then why it waits is
--- returned too.
---@param options moonring.Record
---@return string words
---@return string? why
---@return string line as it is in the file
function Log:write(options) end

---@class moonring.Standing
---@field step integer steps made
---@field epoch number
---@field tokens integer that the run has seen

--- Says where the run stands, at every step, logged or not: what trainer_state.json and the end of
--- the log tell.
---@param options moonring.Standing
function Log:reach(options) end

--- The end of a run: writes the result files.
---@param train_loss number the mean over all steps
---@param examples integer how many the run saw
function Log:finish(train_loss, examples) end

--- Draws a series of the log as a PNG: pale as it is, and smoothed as LLaMA-Factory smooths it.
--- Errors: INVALID_ARGUMENT where there is nothing finite to draw.
---@param key string "loss", "learning_rate", "grad_norm", ...
---@param path string
---@param title string
function Log:plot(key, path, title) end

--- Whether any line so far has this number.
---@param key string as plot's
---@return boolean
function Log:has(key) end

---@class moonring.Best
---@field metric number
---@field step integer
---@field checkpoint string its folder

--- The best checkpoint so far, for trainer_state.json.
---@param options moonring.Best
function Log:best(options) end

--- Writes NAME_results.json, and the same into all_results.json.
---@param name string "eval"
---@param results table<string, number>
function Log:results(name, results) end

--- Writes trainer_state.json as of now.
---@param folder? string of a checkpoint; absent: the log's own
function Log:state(folder) end

function Log:close() end

---@class moonring.Progress
local Progress = {}

---@class moonring.TrainingProgress
---@field total_steps integer
---@field first_step? integer steps already made; 0 where absent
---@field first_tokens? integer that these took; 0 where absent
---@field memory_limit? number bytes; not shown where absent
---@field layout? string what does not change: "sp 4 ring"

--- Steps begin.
---@param options moonring.TrainingProgress
function Progress:train(options) end

---@class moonring.StepProgress
---@field step integer steps made
---@field epoch? number
---@field tokens? integer that the run has seen so far
---@field loss? number
---@field lr? number
---@field grad_norm? number

--- A step is done.
---@param options moonring.StepProgress
function Progress:step(options) end

--- A logging step: a line, where progress is plain.
---@param step integer from 1
---@param text string
function Progress:report(step, text) end

--- The last step was made: the bar stays as it is.
function Progress:end_training() end

--- A line above the bar.
---@param text string
function Progress:line(text) end

--- An event beside the steps: a line, where progress is json.
---@param json string an object
function Progress:event(json) end

--- Until end_phase, this goes on.
---@param name string
---@param unit? string of the count
---@param count? moonring.WorkCount
function Progress:begin_phase(name, unit, count) end

--- The phase that began last is over.
function Progress:end_phase() end

--- What phases took, in the order in which they came first.
---@return { name: string, seconds: number }[]
function Progress:spent() end

--- Ends the bar's line.
function Progress:close() end

---@class moonring.WorkCount
local WorkCount = {}

--- So many more are done.
---@param more integer
function WorkCount:add(more) end

--- So many more are to be done.
---@param more integer
function WorkCount:expect(more) end

--- How many are done.
---@return integer
function WorkCount:counted() end

function WorkCount:close() end

---@class moonring.EventFile
local EventFile = {}

--- Numbers of a step, by their names.
---@param step integer
---@param by_name table<string, number>
function EventFile:scalars(step, by_name) end

--- How values are spread, in thirty buckets of the same width.
---@param step integer
---@param tag string
---@param values number[]
function EventFile:histogram(step, tag, values) end

--- Markdown, shown as TAG/text_summary.
---@param step integer
---@param tag string
---@param text string
function EventFile:text(step, tag, text) end

--- A run's values for the HParams dashboard.
---@param parameters table<string, boolean | number | string>
---@param metrics string[] names of the scalars that runs are compared by
function EventFile:hyperparameters(parameters, metrics) end

--- The run ended well.
---@param step integer
function EventFile:finish(step) end

--- Where it is.
---@return string
function EventFile:path() end

function EventFile:close() end

---@class moonring.LineFile
local LineFile = {}

--- Appends a line. Errors: the disk's; then it waits, and is tried again with the next one.
---@param line string without its end
function LineFile:append(line) end

function LineFile:close() end

---@class moonring.LineProgram
local LineProgram = {}

--- Puts a line in the program's queue; drops it where that is full or the program has ended.
---@param line string without its end
function LineProgram:send(line) end

--- Waits, half a minute at most, until the program has read all and has ended.
function LineProgram:finish() end

--- What is to be said of it since the last time, what it wrote on its stderr among that.
---@return string[]
function LineProgram:notes() end

function LineProgram:close() end

return trainer
