---@meta moonring.native.trainer

--- Optimizers, learning rate schedules, gradients, ZeRO sharding, checkpoints, and the logs that a
--- run writes.
---@class moonring.trainer
local trainer = {}

---@class moonring.AdamWOptions
---@field zero? moonring.Zero the run's ZeRO settings, which also say whether the optimizer's state
---   is offloaded to disk; default: the state is stored next to the weights

--- AdamW as in torch.optim.AdamW. The state is fp32 (fp64 for fp64 weights), 8 bytes for each
--- parameter, and is allocated at a parameter's first step.
---@param list moonring.Parameters
---@param options? moonring.AdamWOptions
---@return moonring.Optimizer
function trainer.adamw(list, options) end

---@class moonring.SgdOptions

--- Plain gradient descent: w <- w (1 - lr decay) - lr g. It has no momentum and no state.
---@param list moonring.Parameters
---@param options? moonring.SgdOptions
---@return moonring.Optimizer
function trainer.sgd(list, options) end

--- Options that all optimizers of `trainer.optimizer_rules` accept. Their state has the dtype of
--- the gradient: fp32, or fp64 for fp64 weights.
---@class moonring.NativeRuleOptions
---@field zero? moonring.Zero ZeRO settings with which the parameters are sharded; default: not
---   sharded
---@field loraplus_lr_ratio? number as in AdamWOptions; default 1

--- An option as its C++ struct lists it.
---@class moonring.ListedOption
---@field name string
---@field type string in an annotation: "number", "string[]", '"top" | "multinomial"'
---@field default? number | boolean | string absent: none, or an empty list or map
---@field required boolean
---@field text string what it means; may be ""

--- An optimizer that `trainer.NAME(list, options)` creates.
---@class moonring.NativeRule
---@field name string
---@field text string what it computes, and the size of its state
---@field options moonring.ListedOption[] without those of NativeRuleOptions

--- The optimizers that are rules of trainer/rules; those functions are documented in
--- lua/types/trainer_options.lua, which is made from this table.
---@return moonring.NativeRule[]
function trainer.optimizer_rules() end

--- The options of further functions, by the names of their classes.
---@return { name: string, options: moonring.ListedOption[] }[]
function trainer.option_lists() end

--- Returns parameters that have shapes but no data, to compute how large an optimizer's state would
--- be.
---@param names string[]
---@param shapes integer[][]
---@return moonring.Parameters
function trainer.meta_parameters(names, shapes) end

--- Bytes that an optimizer's state has after its first step. Errors: INVALID_ARGUMENT for an
--- optimizer that is not one of `optimizer_rules`.
---@param optimizer moonring.Optimizer
---@return integer
function trainer.new_state_bytes(optimizer) end

---@class moonring.OwnOptimizerOptions
---@field zero? moonring.Zero ZeRO settings with which the parameters are sharded; default: not
---   sharded
---@field whole? boolean[] for each parameter: true if the rule needs the whole tensor, which one of
---   the ranks that share it then receives; default: for all parameters each rank's rule receives
---   its shard
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

--- Returns facts about each parameter of a list, in the list's order. The rule of a custom
--- optimizer receives them.
---@param list moonring.Parameters
---@return { name: string, shape: integer[], numel: integer, decays: boolean, trainable: boolean }[]
function trainer.parameter_facts(list) end

---@class moonring.ScheduleOptions
---@field total_steps integer
---@field kind? "linear" | "cosine" | "cosine_with_restarts" | "cosine_with_min_lr" |
---   "cosine_warmup_with_min_lr" | "polynomial" | "inverse_sqrt" | "warmup_stable_decay" |
---   "constant" | "constant_with_warmup" the name of a schedule of Transformers' get_scheduler;
---   default "linear"
---@field learning_rate? number peak learning rate; default 5e-5
---@field warmup_steps? integer steps over which the rate rises from 0; default 0
---@field warmup_ratio? number length of the warm-up as a fraction of total_steps, rounded up; used
---   if warmup_steps is 0; default 0
---@field num_cycles? number number of cosine waves for the kinds cosine, cosine_with_min_lr,
---   cosine_warmup_with_min_lr and warmup_stable_decay (default 0.5); number of restarts for
---   cosine_with_restarts (default 1)
---@field min_lr? number for the kinds cosine_with_min_lr and cosine_warmup_with_min_lr: the final
---   learning rate; either min_lr or min_lr_rate is required
---@field min_lr_rate? number the final learning rate as a fraction of learning_rate
---@field warmup_lr_rate? number for the kind cosine_warmup_with_min_lr: the learning rate at the
---   start of the warm-up, as a fraction of learning_rate; default 1 / (number of warm-up steps)
---@field lr_end? number for the kind polynomial: final learning rate; default 1e-7
---@field power? number for the kind polynomial: exponent; default 1
---@field num_stable_steps? integer for the kind warmup_stable_decay: number of steps at the peak;
---   default: a third of the steps after the warm-up
---@field num_decay_steps? integer for the kind warmup_stable_decay: number of steps of the decay;
---   default: the remaining steps
---@field warmup_type? "linear" | "cosine" | "1-sqrt" for the kind warmup_stable_decay: shape of the
---   warm-up; default "linear"
---@field decay_type? "linear" | "cosine" | "1-sqrt" for the kind warmup_stable_decay: shape of the
---   decay; default "cosine"
---@field min_lr_ratio? number for the kind warmup_stable_decay: initial and final learning rate as
---   a fraction of learning_rate; default 0

--- Creates a learning rate schedule as in Transformers' get_scheduler. With w warm-up steps, step k
--- = 0, 1, ... has the rate learning_rate k / w while k < w; later steps have the rate of the
--- schedule's kind (formulas in trainer/optimizer/schedule.h). Errors: INVALID_ARGUMENT for an
--- option that the kind does not have.
---@param options moonring.ScheduleOptions
---@return moonring.Schedule
function trainer.schedule(options) end

--- Sums every gradient over all ranks, in place. The sum is not divided by the number of ranks. A
--- parameter without a gradient contributes zeros. After it no backward may add to these gradients
--- until clear_gradients. Collective over all ranks. Errors: FAILED_PRECONDITION if they are summed
--- already, or belong to States.
---@param list moonring.Parameters
---@param mesh moonring.Mesh
function trainer.sum_gradients(list, mesh) end

---@class moonring.ClipOptions
---@field max_norm? number gradients with a larger global norm are scaled down to this norm; 0: no
---   clipping; default 1

--- Clips gradients as torch.nn.utils.clip_grad_norm_ does. Call it after `sum_gradients`, so that
--- every rank computes the same norm. Errors: ABORTED, with the names of parameters, if the norm is
--- not finite.
---@param list moonring.Parameters
---@param options? moonring.ClipOptions
---@return number norm the global norm before clipping, in fp64
function trainer.clip_gradients(list, options) end

--- Whether a weight of this name belongs to an embedding. Only the name of its module is checked.
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
---@field states moonring.States the states of a Zero that was created with `apart = true`
---@field learning_rate? number learning rate of the outer optimizer; default 1
---@field momentum? number 0 or more and less than 1; default 0
---@field nesterov? boolean whether the momentum is Nesterov's; default false
---@field clip? number largest absolute value of an element of the momentum; 0 or absent: no limit
---@field overlap? boolean whether the differences of the groups' weights are communicated during
---   the next round; default false

--- Creates the object that synchronizes the sp groups of a mesh after rounds of local steps
--- (OuterSteps). The first round begins at the current weights. Collective over all ranks.
---@param options moonring.OuterStepsOptions
---@return moonring.OuterSteps
function trainer.outer_steps(options) end

--- Creates gradient clipping whose limit adapts to the history of the gradient norm (ZClip, arXiv
--- 2504.02507; trainer/optimizer/zclip.h).
---@return moonring.ZClip
function trainer.zclip() end

---@class moonring.ZeroOptions
---@field mesh moonring.Mesh

--- Creates the ZeRO settings of a run (arXiv 1910.02054): how its states are sharded over ranks.
--- Memory and traffic: trainer/sharding/zero_cost.h. `model.load` accepts the result too, and then
--- at stage 3 shards the weights while it reads them. Collective over all ranks.
---@param options moonring.ZeroOptions
---@return moonring.Zero
function trainer.zero(options) end

---@class moonring.HeatMapOptions
---@field columns string[] column labels, left to right
---@field rows string[] row labels, top to bottom
---@field shares number[][] values from 0 to 1, one list for each row; a value that is not finite is
---   drawn white
---@field title? string
---@field x_label? string
---@field y_label? string

--- Draws a heat map as a PNG file, with colours from red (0) to green (1).
---@param path string path of the file
---@param options moonring.HeatMapOptions
function trainer.heat_map(path, options) end

--- The lock that a run has on a folder, by the file run.lock in it. The lock is released when it is
--- closed, when the script ends, or when the process ends in any way.
---@class moonring.FolderLock
local FolderLock = {}

function FolderLock:close() end

--- Whether the folder and its run.lock are still at their original paths.
---@return boolean
function FolderLock:stands() end

--- The path of run.lock now: in the original folder, in the folder's new place if the folder was
--- renamed, or "" if run.lock was removed.
---@return string
function FolderLock:place() end

--- Locks a folder for this process; does not wait for another process. Creates the folder and its
--- parents if they do not exist; folders that were created for the lock and are still empty are
--- removed with it. Errors: FAILED_PRECONDITION if another process has the lock, with the process
--- id, the machine and the time; PERMISSION_DENIED if the folder cannot be created or written to.
---@param folder string
---@return moonring.FolderLock? lock nil on a file system without locks
---@return string? why the reason, if there is no lock
function trainer.lock_folder(folder) end

--- Raises the error that lock_folder would raise if another process has locked the folder. Changes
--- nothing in the folder.
---@param folder string
function trainer.check_folder_lock(folder) end

---@class moonring.LogOptions
---@field eval_steps? integer for trainer_state.json; default logging_steps

--- Creates the log of a run, in files with the names of LLaMA-Factory and Transformers:
--- trainer_log.jsonl during the run; trainer_state.json, train_results.json and all_results.json at
--- its end. Only one rank creates a log.
---@param options moonring.LogOptions
---@return moonring.Log
function trainer.log(options) end

---@class moonring.ProgressOptions
---@field kind? "auto" | "bar" | "plain" | "json" | "off" a value of the key `progress`; default
---   "auto"
---@field gpu? boolean whether the GPU's memory is shown instead of the process's; default false

--- Creates a progress display: a bar on a terminal, plain lines elsewhere, both on stderr; the kind
--- "json" prints one line for each step on stdout. A background thread redraws the display between
--- calls.
---@param options? moonring.ProgressOptions
---@return moonring.Progress
function trainer.progress(options) end

--- Opens the record of a run, run_state.json. If the script ends while the contents say that the
--- run is running, its state becomes "failed" with the error as the reason ("stopped" if the
--- embedding program cancelled it, or if the script ended without an error).
---@param path string
---@return moonring.RunRecord
function trainer.run_record(path) end

---@class moonring.RunRecord
local RunRecord = {}

--- Replaces the contents. Works on a full disk, too, once the file exists.
---@param json string an object with the field "state"
function RunRecord:write(json) end

function RunRecord:close() end

--- Creates a counter of finished work, whose value the progress display shows. data.load,
--- model.load and Model:save accept one.
---@return moonring.WorkCount
function trainer.work_count() end

---@class moonring.EventFileOptions
---@field folder string the folder of the event file, which must exist
---@field first_step? integer number of steps already made, if the run is resumed: events of later
---   steps are removed from the event files in the folder; default 0

--- Creates a new TensorBoard event file in a folder. Errors are those of the file system.
---@param options moonring.EventFileOptions
---@return moonring.EventFile
function trainer.event_file(options) end

--- Opens a text file to which lines are appended. Each line is written to the file at once. Errors
--- are those of the file system.
---@param path string
---@param keep? boolean true: existing lines are kept; default: the file becomes empty
---@return moonring.LineFile
function trainer.line_file(path, keep) end

--- Starts a program that receives lines on its stdin. Errors: NOT_FOUND; PERMISSION_DENIED, always
--- under --sandbox; FAILED_PRECONDITION in an embedded runtime.
---@param command string[] the program, searched on the PATH, and its arguments
---@param grace? number if the script ends without `finish`: seconds in which the program can read
---   the remaining lines and end; then it is killed; default 0
---@return moonring.LineProgram
function trainer.line_program(command, grace) end

---@class moonring.MatmulRateOptions
---@field dtype? string default "fp32"
---@field device? string default "cpu"
---@field seconds? number duration of the measurement, which makes at least one product; default
---   0.05
---@field device_peak? number most bytes of GPU memory that tensors may use, including those that
---   already exist and the matrices of the measurement

--- Measures how many floating-point operations per second this machine makes in products of large
--- square matrices; 0 if the GPU has no room for the matrices.
---@param options? moonring.MatmulRateOptions
---@return number
function trainer.matmul_rate(options) end

---@class moonring.HoldFilesOptions
---@field folder string the folder whose files are buffered
---@field budget number most bytes in memory

--- Creates a buffer for files. Between `begin` and `finish`, files that this thread writes in the
--- folder go to memory instead of to disk: files that are written completely or not at all
--- (system.write), and files that are not flushed (safetensors.write and Model:save with flush =
--- false). Files that exceed the budget go to disk.
---@param options moonring.HoldFilesOptions
---@return moonring.HeldFiles
function trainer.hold_files(options) end

---@class moonring.HeldFiles
local HeldFiles = {}

--- After this call, files that this thread writes in the folder go to memory.
function HeldFiles:begin() end

--- Ends the buffering that `begin` started.
function HeldFiles:finish() end

--- Bytes that have gone to the buffer in total.
---@return integer
function HeldFiles:bytes() end

--- Whether a file did not fit into the budget.
---@return boolean
function HeldFiles:was_full() end

--- Frees the buffer, unless a Publisher still uses it.
function HeldFiles:close() end

---@class moonring.PublisherOptions
---@field draft string the temporary folder to which all ranks wrote the checkpoint
---@field folder string the checkpoint's final path; a folder that exists there is replaced
---@field names string[] names of the files that this rank wrote
---@field held? moonring.HeldFiles the buffer with this rank's files, if they are in memory
---@field step integer
---@field rank? integer default 0
---@field ranks? integer default 1
---@field mesh? moonring.Mesh the mesh over which a rank reports to rank 0 that it could not
---   complete its files

--- Completes a checkpoint in a background thread: flushes this rank's files to disk and computes
--- their checksums. Rank 0 then waits for all ranks, writes manifest.json and renames the temporary
--- folder to its final path. Ranks synchronize through files in the temporary folder. If a rank
--- cannot write there, it informs rank 0 over the mesh.
---@param options moonring.PublisherOptions
---@return moonring.Publisher
function trainer.publish_checkpoint(options) end

--- Removes a checkpoint if it exists. While its files are being removed, the folder has another
--- name, so that an incomplete folder is never taken for a checkpoint.
---@param folder string
function trainer.remove_checkpoint(folder) end

--- Raises an error with the reason if a folder is not a complete checkpoint. Reads every byte of
--- the checkpoint.
---@param folder string
function trainer.check_checkpoint(folder) end

---@class moonring.Publisher
local Publisher = {}

--- Whether the background thread has ended, successfully or not. On rank 0 that means the whole
--- checkpoint; on other ranks only this rank's files.
---@return boolean
function Publisher:done() end

--- Waits until the background thread has ended. Raises the file system's error if it failed.
function Publisher:wait() end

--- Waits until this rank's files are on disk; does not wait for other ranks.
function Publisher:close() end

--- Peak memory of this process so far, in bytes; 0 if the kernel does not report it.
---@return integer
function trainer.peak_memory() end

--- Bytes that malloc has freed but not returned to the kernel.
---@return integer
function trainer.held_memory() end

--- Peak GPU memory since the last call, in bytes, as LibTorch's allocator counts it on this rank:
--- allocated (tensors) and reserved (including the allocator's cache); nil if no GPU was used.
---@return { allocated: integer, reserved: integer }?
function trainer.take_device_peaks() end

--- Properties of this rank's GPU: name, major and minor (compute capability), multiprocessors,
--- driver and runtime (CUDA versions, 13000 for 13.0); nil without a GPU or in a build without
--- CUDA.
---@return table?
function trainer.gpu() end

--- Selects deterministic algorithms for GPU operators, which are slower. Applies to the whole
--- process; call it before anything is computed on the GPU. CPU operators are always deterministic.
---@param wanted boolean true: selects them; false: restores the default
function trainer.deterministic(wanted) end

--- Returns freed memory that malloc keeps to the kernel, in whole pages.
---@param seconds? number returns memory only if allocating it again would take no longer than this
function trainer.release_memory(seconds) end

--- Bytes of tensors that are alive in host memory, by use: weights, gradients, optimizer,
--- checkpoint_inputs, activations, attention, logits, communication, other. GPU memory is not
--- counted.
---@return table<string, integer>
function trainer.live_memory() end

--- Starts to sample this process's memory. The sampling ends when the returned object is closed.
---@return moonring.MemoryWatch
function trainer.memory_watch() end

---@class moonring.MemoryWatch
local MemoryWatch = {}

--- Peak of anonymous and shared memory since the last call of take_peak, in bytes.
---@return integer
function MemoryWatch:take_peak() end

--- Memory of this process at its peak, in bytes above the level after start-up. The first table
--- splits it by use: the names of live_memory, and data_and_libraries, scripts, held_by_allocator,
--- checkpoint_copy. Totals: explained (the sum of the first table), kernel (the largest value of
--- anonymous and shared memory that the kernel reported), start_level, and tensors (peak of tensor
--- memory). The third table exists on a GPU: device_allocated and device_reserved, the peaks of the
--- GPU's allocator since `take_device_peaks`, and the memory by use at the time of its peak, under
--- the names of live_memory.
---@return table<string, integer> parts
---@return table<string, integer> totals
---@return table<string, integer>? device
function MemoryWatch:report() end

function MemoryWatch:close() end

--- AdamW's settings for one step; trainer_options.lua lists them.
---@class moonring.StepSettings

---@class moonring.Optimizer
local Optimizer = {}

--- Updates the parameters in place. A parameter that is frozen or has no gradient does not change.
--- Gradients are not cleared.
---
--- With `settings` (an optimizer of `trainer.adamw` only): AdamW's betas, epsilon and weight decay
--- for this step, as after a change of param_groups in PyTorch. Such a step also updates trainable
--- parameters without a gradient, as if it were 0: their moments and weights decay. Errors:
--- INVALID_ARGUMENT, before anything changes, for a value out of range and for other optimizers.
---@param lr number
---@param settings? moonring.StepSettings
function Optimizer:step(lr, settings) end

--- Bytes of the optimizer's state on this rank.
---@return integer
function Optimizer:state_bytes() end

--- For an optimizer that evaluates and saves other weights than those at which it trains
--- (schedule_free): replaces the weights by their average (true), or restores the training weights
--- (false). Call publish() after it. Collective over all ranks.
---@param average boolean true: use the average; false: use the training weights
---@return boolean whether any weight was written; false for optimizers without an average
function Optimizer:average(average) end

function Optimizer:close() end

---@class moonring.Zero
local Zero = {}

---@class moonring.StatesOptions
---@field held? "bf16" | "fp16" dtype in which forwards use the matrices; each rank's shards are
---   then fp32 master weights. Default: the dtype in which the weights are stored

--- Creates the states (weights, gradients and their shards) of these parameters. At stage 3
--- parameters that are not sharded yet are sharded now, including frozen ones. Collective over all
--- ranks.
---@param list moonring.Parameters must stay open as long as the states
---@param options? moonring.StatesOptions
---@return moonring.States
function Zero:states(list, options) end

--- Whether ranks that process different data share gradients or weights. If so, all of them must
--- run the same number of forwards and backwards.
---@return boolean
function Zero:lockstep() end

--- Number of ranks that divide the experts of each layer among them.
---@return integer
function Zero:expert_ranks() end

--- The number of communication steps and bytes that this rank has sent so far to the ranks with
--- which it shares experts.
---@return integer steps of communication
---@return integer bytes sent
function Zero:expert_traffic() end

function Zero:close() end

--- Weights, gradients and their sharding during training. The order of calls in a step: forward and
--- backward; sum_gradients; clip; the optimizer's step; publish; clear_gradients.
---@class moonring.States
local States = {}

--- This rank's shards of the trainable parameters, as one-dimensional parameters for an optimizer.
---@return moonring.Parameters
function States:parameters() end

--- Sums every gradient over all ranks into the shards, once in a step. The sum is not divided by
--- the number of ranks. Until clear_gradients a second sum is refused (FAILED_PRECONDITION), and so
--- is a backward (INVALID_ARGUMENT): the ranks' sum would be counted once per rank. Collective over
--- all ranks.
function States:sum_gradients() end

---@class moonring.ClipStatesOptions: moonring.ClipOptions
---@field norm? number the value that norm() returned, divided by `loss_scale` if that is given;
---   default: the norm is computed
---@field loss_scale? number the factor by which the loss was multiplied before the backward;
---   gradients are divided by it; default 1

--- Clips gradients as trainer.clip_gradients does, over all shards. Collective over all ranks.
---@param options? moonring.ClipStatesOptions
---@return number norm the global norm before clipping, in fp64, the same on all ranks
function States:clip(options) end

--- Global gradient norm: sqrt of the sum of squares over all gradients, in fp64. Collective over
--- all ranks. Errors: ABORTED, with the names of parameters, if the norm is not finite.
---@return number
function States:norm() end

--- Gradient norm of each parameter, by the parameter's name. Collective over all ranks.
---@return table<string, number>
function States:norms() end

--- Returns the whole gradient of a parameter, gathered from all ranks; call it after sum_gradients.
--- Nil if no rank has a gradient of it. Collective over all ranks.
---@param name string
---@return moonring.Tensor?
function States:gradient(name) end

--- Moves the gradients out, after sum_gradients: this rank's shards by the parameters' names, as
--- one-dimensional tensors in fp32 (fp64 for fp64 weights), in host memory if the optimizer is
--- offloaded. A parameter without a gradient on any rank is absent. The next backward begins at 0.
---@return table<string, moonring.Tensor>
function States:take_gradients() end

--- Replaces the gradient of a parameter, which clipping and the optimizer then use: by the whole
--- one, of the weight's shape and equal on all ranks, or by that of this rank's shard, [elements].
--- Call it on every rank, after sum_gradients; no communication. It is converted to fp32 (fp64 for
--- fp64 weights), also for bf16 weights, and moved to where the optimizer's state is. Errors:
--- NOT_FOUND; INVALID_ARGUMENT for another shape.
---@param name string
---@param gradient moonring.Tensor
function States:set_gradient(name, gradient) end

--- The scalar product of two gradients in fp64, over the shards of all ranks. Collective over all
--- ranks.
---@param a table<string, moonring.Tensor> as take_gradients returns
---@param b table<string, moonring.Tensor>
---@return number
function States:dot(a, b) end

--- Makes forwards use the new weights; call it after an optimizer's step. Collective over all
--- ranks.
function States:publish() end

--- Frees the gradients of shards and parameters. Call it before the next step.
function States:clear_gradients() end

--- Whether ranks must run the same number of forwards and backwards; as Zero:lockstep.
---@return boolean
function States:lockstep() end

--- Bytes that this rank stores for trainable parameters while no block is running: weights
--- (including master weights), and gradients.
---@return integer weights
---@return integer gradients
function States:bytes() end

--- Returns which shard of the states this rank stores.
---@return integer index of the shard, from 0
---@return integer parts number of shards
---@return boolean first whether this rank is the first of those that store this shard; the first
---   one writes the shard to checkpoints
function States:place() end

--- Returns the tensors that this rank writes to a checkpoint: weight/NAME for each trained weight,
--- and the optimizer's tensors. They are the tensors in use, not copies. If experts are divided
--- among ranks, the result contains the shards of all of these ranks. Collective over the ranks
--- that share experts.
---@param optimizer moonring.Optimizer the optimizer that was created over parameters()
---@param keeps? boolean false: returns nothing; this rank only takes part in the gathering
---@return table<string, moonring.Tensor>
function States:save(optimizer, keeps) end

--- Restores the states from the tables that `save` returned on every rank, in rank order. The
--- number of ranks may have been different then. Call publish() after it. Raises an error if names,
--- shapes or dtypes differ.
---@param optimizer moonring.Optimizer the optimizer that was created over parameters()
---@param saved table<string, moonring.Tensor>[]
function States:load(optimizer, saved) end

function States:close() end

--- Rounds of local steps (DiLoCo). In a round, the sp groups train independently; at its end they
--- synchronize their weights (equations in trainer/outer_steps.h). "Common weights" are those at
--- which a round begins, equal on all groups. After a function that writes weights, call
--- States:publish.
---@class moonring.OuterSteps
local OuterSteps = {}

--- Ends a round: averages over the groups how far each has moved from the common weights, applies
--- the outer optimizer, and gives all groups the resulting new common weights. With overlap, the
--- average of the previous round is applied. Collective over all ranks.
function OuterSteps:end_round() end

--- Call this after the last round: with overlap, applies the average that is still being
--- communicated. Collective over all ranks.
---@return boolean acted whether there was such an average
function OuterSteps:finish() end

--- Replaces the weights by the common weights of all groups (true), or restores the group's own
--- (false).
---@param common boolean true: use the common weights
---@return boolean written whether any weight was written
function OuterSteps:show_common(common) end

--- Returns the tensors that this rank writes to a checkpoint; they are the same on all groups.
--- outer/NAME: the common weights; outer_momentum/NAME; and with overlap outer_difference/NAME, the
--- average that is being communicated, for which the call waits.
---@return table<string, moonring.Tensor>
function OuterSteps:save() end

--- Restores the state from the tables that `save` returned on every rank of a group, in rank order;
--- their number may differ from the present number of ranks. If the list is empty, the current
--- weights become the common weights.
---@param saved table<string, moonring.Tensor>[]
function OuterSteps:load(saved) end

--- Bytes that this rank stores for rounds, in addition to its weights and optimizer state.
---@return integer
function OuterSteps:state_bytes() end

--- The number of communication steps and bytes that this rank has sent for rounds so far.
---@return integer steps of communication
---@return integer bytes sent
function OuterSteps:traffic() end

function OuterSteps:close() end

---@class moonring.ZClip
local ZClip = {}

--- Returns the norm to which a gradient with this norm should be clipped: a smaller value if the
--- norm is a spike, else infinity. Adds the norm to the history.
---@param norm number must be finite
---@return number
function ZClip:limit(norm) end

--- The history of gradient norms as text, for a checkpoint.
---@return string
function ZClip:state() end

--- Restores the history of gradient norms from a checkpoint.
---@param text string a value that state() returned
function ZClip:load_state(text) end

function ZClip:close() end

---@class moonring.Schedule
local Schedule = {}

--- The learning rate of the step with this index.
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
---@field step integer number of steps made so far, at least 1
---@field epoch number epochs done
---@field tokens integer tokens that the run has processed so far
---@field step_seconds? number seconds that this process has spent in steps, without evaluations and
---   saves, to which tokens_per_second and mfu are relative; default: the time since the log was
---   opened
---@field seconds_at_peak? number how many seconds the run's computation so far would take at the
---   peak rate of its devices; mfu is computed from seconds_at_peak, and mfu_causal from
---   causal_seconds_at_peak
---@field causal_seconds_at_peak? number
---@field loss? number
---@field lr? number
---@field grad_norm? number
---@field peak_memory_bytes? number
---@field metrics? table<string, number> additional values, under the names that are written

--- Writes one line to trainer_log.jsonl. Fields that are absent are omitted. If the line cannot be
--- written (a full disk), the log keeps it and writes it with the next one; then the reason is
--- returned as `why`.
---@param options moonring.Record
---@return string words a readable text of the line
---@return string? why the line is not on disk yet; nil if it is
---@return string line the line as it is in the file
function Log:write(options) end

--- Number of lines so far. A checkpoint stores it: a run that resumes from there keeps this many
--- lines.
---@return integer
function Log:lines() end

---@class moonring.Standing
---@field step integer number of steps made so far
---@field epoch number
---@field tokens integer number of tokens that the run has processed so far

--- Records how far the run is; call it after every step, logged or not. These values are written to
--- trainer_state.json and at the end of the log.
---@param options moonring.Standing
function Log:reach(options) end

--- Ends the training: writes train_results.json and trainer_state.json, and returns the contents of
--- the first. Evaluations may still be written after it.
---@param train_loss number mean over all steps
---@param examples integer number of examples that the run processed
---@return table<string, number>
function Log:finish(train_loss, examples) end

--- Ends the log with its last line, which has no loss, lr and tokens. Call it after finish.
---@param more table<string, number> further numbers for the line
function Log:finish_log(more) end

--- Draws a value over the steps as a PNG file: the logged values in a pale colour, and a curve that
--- is smoothed as in LLaMA-Factory. Errors: INVALID_ARGUMENT if the log has no finite value of this
--- name.
---@param key string name of the value: "loss", "learning_rate", "grad_norm", ...
---@param path string
---@param title string
function Log:plot(key, path, title) end

--- Whether any line so far contains the value of this name.
---@param key string as in plot
---@return boolean
function Log:has(key) end

---@class moonring.Best
---@field metric number
---@field step integer
---@field checkpoint string folder of the checkpoint

--- Records which checkpoint is the best so far, for trainer_state.json.
---@param options moonring.Best
function Log:best(options) end

--- Writes NAME_results.json and adds the same values to all_results.json.
---@param name string such as "eval"
---@param results table<string, number>
function Log:results(name, results) end

--- Writes trainer_state.json with the values so far.
---@param folder? string folder of a checkpoint; default: the log's folder
function Log:state(folder) end

function Log:close() end

---@class moonring.Progress
local Progress = {}

---@class moonring.TrainingProgress
---@field total_steps integer
---@field first_step? integer number of steps already made; default 0
---@field first_tokens? integer number of tokens in these steps; default 0
---@field memory_limit? number bytes; displayed if given
---@field layout? string a constant text to display, such as "sp 4 ring"

--- Starts the display of training steps.
---@param options moonring.TrainingProgress
function Progress:train(options) end

---@class moonring.StepProgress
---@field step integer number of steps made so far
---@field epoch? number
---@field tokens? integer number of tokens that the run has processed so far
---@field loss? number
---@field lr? number
---@field grad_norm? number

--- Shows the result of a step.
---@param options moonring.StepProgress
function Progress:step(options) end

--- Shows a text about a step; printed as a line if progress is "plain".
---@param step integer from 1
---@param text string
function Progress:report(step, text) end

--- Call after the last step: the bar stays on the screen.
function Progress:end_training() end

--- Prints a line above the bar.
---@param text string
function Progress:line(text) end

--- From now on a file has a copy of each line and of each report of a step, whatever is shown on
--- the terminal; first those that came before this call.
---@param path string
---@param append boolean true: the lines of an earlier run stay in front
function Progress:keep_log(path, append) end

--- Writes a text into the file of keep_log only.
---@param text string
function Progress:log_only(text) end

--- Reports an event other than a step; printed as a line if progress is "json".
---@param json string a JSON object
function Progress:event(json) end

--- Starts to display a phase, such as loading a model, until end_phase is called.
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

--- Adds to the amount of work that is done.
---@param more integer
function WorkCount:add(more) end

--- Adds to the amount of work that is expected in total.
---@param more integer
function WorkCount:expect(more) end

--- The amount of work done.
---@return integer
function WorkCount:counted() end

function WorkCount:close() end

---@class moonring.EventFile
local EventFile = {}

--- Writes scalar values of a step, by tag (the name in TensorBoard).
---@param step integer
---@param by_name table<string, number>
function EventFile:scalars(step, by_name) end

--- Writes a histogram of values, with thirty buckets of equal width.
---@param step integer
---@param tag string
---@param values number[]
function EventFile:histogram(step, tag, values) end

--- Writes a text in Markdown, which TensorBoard shows as TAG/text_summary.
---@param step integer
---@param tag string
---@param text string
function EventFile:text(step, tag, text) end

--- Writes a run's hyperparameters for TensorBoard's HParams dashboard.
---@param parameters table<string, boolean | number | string>
---@param metrics string[] tags of the scalars by which runs are compared
function EventFile:hyperparameters(parameters, metrics) end

--- Marks the run as successful in TensorBoard's HParams dashboard.
---@param step integer
function EventFile:finish(step) end

--- The file's path.
---@return string
function EventFile:path() end

function EventFile:close() end

---@class moonring.LineFile
local LineFile = {}

--- Appends a line. Errors are those of the file system; the line is then kept, and written with the
--- next one.
---@param line string without a line end
function LineFile:append(line) end

function LineFile:close() end

---@class moonring.LineProgram
local LineProgram = {}

--- Adds a line to the program's queue. Drops it if the queue is full or the program has ended.
---@param line string without a line end
function LineProgram:send(line) end

--- Waits until the program has read all lines and has ended. A program that takes longer is killed.
---@param patience? number seconds; default 30
function LineProgram:finish(patience) end

--- Returns messages about the program since the last call, including the lines that it wrote to
--- stderr.
---@return string[]
function LineProgram:notes() end

function LineProgram:close() end

return trainer
