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
---@field dataset_dir string the folder of dataset_info.json; data where absent
---@field template? string the chat template by name; absent: default
---@field cutoff_len integer tokens of an example, prompt and response, at most; 2048 where absent
---@field overlong "truncate" | "drop" | "error" what becomes of a longer example; truncate where absent
---@field train_on_prompt boolean learn the prompt's tokens too; false where absent
---@field mask_history boolean learn the last turn alone; false where absent
---@field max_samples? integer rows of each data set at most
---@field default_system? string the system prompt where an example has none
---@field stage "sft" what is trained; sft where absent
---@field finetuning_type "full" which weights learn; lora where absent
---@field pure_bf16 boolean bf16 weights and matmuls; false where absent
---@field bf16 boolean fp32 weights and states, bf16 matmuls; false where absent
---@field fp64 boolean fp64 weights and matmuls, to measure rounding by; false where absent
---@field count "labels" | "targets" what the loss is divided by: labels before the shift, as LLaMA-Factory does, or predictions; labels where absent
---@field disable_shuffling boolean take the examples in their order; false where absent
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
---@field seed integer of the order of examples; 42 where absent
---@field data_seed? integer the same, where it differs from seed
---@field logging_steps integer steps between lines of the log; 500 where absent
---@field logging_first_step boolean log the first step too; false where absent
---@field plot_loss boolean draw training_loss.png; false where absent
---@field sample_prompt? string a question that the model answers before and after the training
---@field ddp_timeout number seconds that a collective may take; 1800 where absent
---@field use_cpu boolean no GPU; the same as --device cpu; false where absent
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
