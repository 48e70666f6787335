---@meta moonring.config

--- A training configuration: a YAML (or JSON) file, then key=value overrides, checked against moonring.keys.
---@class moonring.config
local config = {}

--- A checked configuration: a value for every key, nil where it is null. `moonring help train` lists the further keys, which may be
--- given but change nothing or must keep their default.
---@class moonring.Configuration
---@field path? string the file that it was read from
---@field given table<string, any> what the file and the words say, unchecked
---@field model_name_or_path? string the model: a Hugging Face folder, a .gguf file, or builtin:smollm2
---@field adapter_name_or_path? string[] adapter folders in PEFT's format: all but the last are merged into the model, the last goes on learning
---@field rope_scaling? "linear" | "dynamic" | "yarn" | "llama3" how the rotary embedding is stretched where cutoff_len is beyond the model's context: by ceil(cutoff_len / context)
---@field moe_aux_loss_coef? number weight of the load-balancing loss of a mixture of experts, per_device_train_batch_size examples at a time; in pt and sft
---@field disable_gradient_checkpointing boolean keep every activation: the same as recompute: none; false where absent
---@field recompute "block" | "selective" | "none" what backward makes again: each block from its input, all of a block but its attention, or nothing; block where absent
---@field sequence_parallel_size integer ranks that share one sequence; divides the number of ranks; 1 where absent
---@field sequence_parallel_mode "zigzag-ring" | "ring" | "ulysses" | "all-gather" | "llama3" | "usp" | "double-ring" | "auto" how attention is spread over them; zigzag-ring where absent
---@field sequence_parallel_ulysses_degree integer usp: ranks over which heads are split, chosen where it is 0; 0 where absent
---@field sequence_parallel_ring_degree integer usp: ranks over which keys travel, chosen where it is 0; 0 where absent
---@field placement "head_first" | "context_first" usp: the axis whose ranks are neighbours; head_first where absent
---@field double_ring_window integer double-ring: ranks of a window, chosen where it is 0; 0 where absent
---@field micro_batch_tokens? integer tokens that one sequence-parallel group puts through one forward pass; absent: cutoff_len x per_device_train_batch_size
---@field dataset? string[] names from dataset_info.json
---@field eval_dataset? string[] names of data sets to evaluate on; excludes val_size
---@field dataset_dir string the folder of dataset_info.json; data where absent
---@field template? string the chat template by name; absent: default
---@field cutoff_len integer tokens of an example, prompt and response, at most; 2048 where absent
---@field overlong "truncate" | "drop" | "error" what becomes of a longer example; truncate where absent
---@field train_on_prompt boolean learn the prompt's tokens too; false where absent
---@field mask_history boolean learn the last turn alone; false where absent
---@field max_samples? integer rows of each data set at most
---@field val_size number examples held out for evaluation: below 1 a part of the data set, else their number; 0 where absent
---@field packing? boolean stage pt: join the texts and cut them at cutoff_len; absent: true there; given as true: at cutoff_len - 1, as LLaMA-Factory does. Other stages pack without it, exactly
---@field preprocessing_batch_size integer rows that are joined together (pt with packing), or whose answers are exchanged (kto); 1000 where absent
---@field overwrite_cache boolean compute reference log-probs again; prepared data is not cached; false where absent
---@field default_system? string the system prompt where an example has none
---@field stage "pt" | "sft" | "rm" | "dpo" | "kto" pre-training, supervised fine-tuning, a reward model, preferences between pairs (pref_loss), or single answers judged (KTO); sft where absent
---@field finetuning_type "full" | "lora" | "freeze" which weights learn: all, a low-rank adapter's, or those of some layers; lora where absent
---@field pure_bf16 boolean bf16 weights and matmuls; false where absent
---@field bf16 boolean fp32 weights and states, bf16 matmuls; false where absent
---@field fp64 boolean fp64 weights and matmuls, to measure rounding by; false where absent
---@field count "labels" | "targets" what the loss is divided by: labels before the shift, as LLaMA-Factory does, or predictions; labels where absent
---@field disable_shuffling boolean take the examples in their order; false where absent
---@field use_dft_loss boolean stage sft: each token's loss is weighted by its probability (DFT, arXiv 2508.05629); false where absent
---@field use_eaft_loss boolean stage sft: each token's loss is weighted by (entropy of the 20 likeliest ids / 3) ^ eaft_alpha (EAFT); false where absent
---@field eaft_alpha number of use_eaft_loss; 1 where absent
---@field label_smoothing_factor number stages pt and sft: this part of each target is spread over the vocabulary. Divided by the step's count like any loss (LLaMA-Factory's grows with accumulation); 0 where absent
---@field neftune_noise_alpha? number uniform noise of +-alpha / sqrt(tokens x hidden size) on the embeddings while training (NEFTune, arXiv 2310.05914); tokens: of the document
---@field compute_accuracy boolean stages pt and sft: accuracy of the tokens in evaluation; a reward model's is always there; false where absent
---@field early_stopping_steps? integer end after so many evaluations in a row without a better metric_for_best_model
---@field pref_loss "sigmoid" | "hinge" | "ipo" | "kto_pair" | "orpo" | "simpo" | "nca_pair" | "robust" stage dpo: the loss of a pair; its formula and source are in objectives/preference_losses.cc; sigmoid where absent
---@field pref_beta number how much a log-ratio to the reference weighs; 0.1 where absent
---@field pref_ftx number weight of the chosen answer's own mean loss, added; 0 where absent
---@field pref_bco_weight number weight of BCO's loss beside it; 0 where absent
---@field simpo_gamma number SimPO's margin; used as simpo_gamma / pref_beta; 0.5 where absent
---@field dpo_label_smoothing number part of the pairs that are labelled wrongly: sigmoid (cDPO) and robust; 0 where absent
---@field ld_alpha? number weight of the tokens beyond the shorter answer's length (LD-DPO); not in the reference
---@field kto_chosen_weight number stage kto: weight of desired answers; 1 where absent
---@field kto_rejected_weight number stage kto: weight of undesired ones; 1 where absent
---@field ref_model? string the reference model; absent: the model as it is before training (LoRA: with its adapter off)
---@field ref_model_adapters? string[] adapter folders merged into ref_model
---@field precompute_ref_log_probs boolean compute the reference's log-probs once and keep them in output_dir; then no reference model is held; false where absent
---@field lora_rank integer columns of the low-rank matrices; 8 where absent
---@field lora_alpha? integer their product is scaled by lora_alpha / lora_rank; absent: 2 x lora_rank
---@field lora_dropout number of the adapter's input while training; none in stages dpo and kto, as in LLaMA-Factory; 0 where absent
---@field lora_target string[] linear modules by name, or all of the blocks'; all where absent
---@field additional_target? string[] modules that learn whole beside the adapter and are saved with it: embed_tokens, lm_head, norm
---@field use_rslora boolean scale by lora_alpha / sqrt(lora_rank); false where absent
---@field use_dora boolean learn a magnitude a row beside the direction (DoRA); false where absent
---@field loraplus_lr_ratio? number LoRA+: the rate of B over that of A
---@field create_new_adapter boolean merge every adapter_name_or_path and begin a new one; false where absent
---@field freeze_trainable_layers integer layers that learn: the last n, or the first -n; 2 where absent
---@field freeze_trainable_modules string[] modules of those layers that learn: self_attn, mlp, input_layernorm, ...; all where absent
---@field freeze_extra_modules? string[] modules outside the layers that learn too: embed_tokens, norm, lm_head
---@field per_device_train_batch_size integer examples of a micro-batch for each data-parallel rank; 8 where absent
---@field gradient_accumulation_steps integer micro-batches of a step; 1 where absent
---@field learning_rate number its peak; 5e-05 where absent
---@field num_train_epochs number passes over the data; 3 where absent
---@field max_steps integer steps in all; above 0 it wins over num_train_epochs; -1 where absent
---@field lr_scheduler_type "linear" | "cosine" | "constant" | "constant_with_warmup" how the rate falls; linear where absent
---@field warmup_ratio number part of the steps in which the rate rises; 0 where absent
---@field warmup_steps integer steps in which it rises; above 0 it wins over the ratio; 0 where absent
---@field optim "adamw_torch" | "adamw_torch_fused" | "sgd" AdamW with fp32 state, or plain gradient descent; adamw_torch where absent
---@field weight_decay number decoupled; not on biases and norms; 0 where absent
---@field adam_beta1 number AdamW's first moment; 0.9 where absent
---@field adam_beta2 number AdamW's second moment; 0.999 where absent
---@field adam_epsilon number AdamW's epsilon; 1e-08 where absent
---@field max_grad_norm number gradients of a larger norm are scaled down to it; 0: never; 1 where absent
---@field output_dir? string where the model, the log and the plot go
---@field overwrite_output_dir boolean write into a folder that is not empty; false where absent
---@field do_eval boolean evaluate after the training too; so it is wherever eval_strategy is not no; false where absent
---@field seed integer of the order of examples; 42 where absent
---@field data_seed? integer the same, where it differs from seed
---@field logging_steps integer steps between lines of the log; 500 where absent
---@field logging_first_step boolean log the first step too; false where absent
---@field plot_loss boolean draw training_loss.png; false where absent
---@field sample_prompt? string a question that the model answers before and after the training
---@field save_strategy "no" | "steps" | "epoch" when a checkpoint-N of the model is written; steps where absent
---@field save_steps number steps between checkpoints; below 1: a part of all steps. The last step has one too; 500 where absent
---@field save_total_limit? integer checkpoints kept; the best one is kept besides
---@field eval_strategy "no" | "steps" | "epoch" when to evaluate; no where absent
---@field eval_steps? number steps between evaluations; below 1: a part of all steps; absent: logging_steps
---@field eval_on_start boolean evaluate before the first step; false where absent
---@field per_device_eval_batch_size integer rows of an evaluation batch; eval_loss is the mean of the batches' means, by rows; 8 where absent
---@field load_best_model_at_end boolean end with the best checkpoint; save_strategy and eval_strategy must agree; false where absent
---@field metric_for_best_model? string which number of an evaluation says so; absent: loss
---@field greater_is_better? boolean absent: unless the metric ends in loss
---@field ddp_timeout number seconds that a collective may take; 1800 where absent
---@field use_cpu boolean no GPU; the same as --device cpu; false where absent
---@field export_dir? string moonring export: the folder to write the merged model to
---@field export_size integer GB of a file at most; 5 where absent
---@field max_new_tokens integer tokens of an answer at most; 1024 where absent
---@field temperature number of sampling; 0.95 where absent
---@field top_p number nucleus; 0.7 where absent
---@field top_k integer tokens considered; 50 where absent
---@field repetition_penalty number of tokens already there; 1 where absent
---@field do_sample? boolean sample; absent: where temperature, top_p or top_k is given; else the likeliest token

---@class moonring.KeyRow one key: { name, type, default, meaning }
---@field [1] string the key
---@field [2] "int" | "float" | "bool" | "string" | "list" | "any"
---@field [3] any the default; `moonring.null`: may be left out
---@field [4] string its meaning, for help
---@field choices? any[] the values that are accepted
---@field others? any[] values that are known and not supported yet
---@field only? string the default alone is accepted, for this reason
---@field ignored? string any value is accepted and changes nothing, for this reason

--- Reads a file and the overrides, which win. Errors name the file and line: an unknown key (with the nearest), one that is not supported
--- yet, a value of a wrong type. They end the process with exit code 2.
---@param path? string
---@param words string[] key=value, a leading "--" is fine; values as YAML scalars or lists
---@param allowed? moonring.KeyRow[] keys that this command alone has
---@return moonring.Configuration
function config.load(path, words, allowed) end

--- The configuration of a command: CONFIG.yaml, where the first word is no key=value, and the words after it. Without any word: how the
--- command is used, and exit code 2.
---@param words string[] `arg`
---@param allowed? moonring.KeyRow[] keys that this command alone has
---@return moonring.Configuration
function config.command(words, allowed) end

--- Refuses a configuration that lacks one of these keys.
---@param loaded moonring.Configuration
---@param required string[]
function config.require_keys(loaded, required) end

--- Refuses a file to write whose folder is not there, or that is a folder, before the work that it is for. A key that is absent is fine.
---@param loaded moonring.Configuration
---@param name string the key that names the file
function config.check_output(loaded, name) end

--- Ends the script: "moonring: " and the arguments joined, exit code 2.
---@param ... string | number
function config.fail(...) end

return config
