--- The keys of a training configuration: LLaMA-Factory's names and Moonring's own, in one table.
-- `moonring help train` prints it and config.lua parses by it. A row is
--   { name, type, default, meaning [, choices = {..}, others = {..}] [, only = reason | ignored =
--   reason | warned = reason] }
-- `others` are choices of LLaMA-Factory's that are refused by name. Types: int, float, bool,
-- string, list (a comma list or a YAML list). `null` as a default: may be left out.
--   only     the default alone is accepted: what else the key could ask for is refused, for the
--            reason given
--   ignored  accepted with any value: it changes nothing here, for the reason given
--   warned   accepted with any value, and a line says that another one than the default changes
--            nothing, and why
--   least, most  bounds of a number, both included
--   nullable null is a value beside the default: the key is then absent
--   resume   what becomes of a run that goes on from a checkpoint under another value: "free"
--            (nothing: the numbers are the same, or no one's), "told" (it goes on, and says so);
--            absent or "refused": refused. A section may say it of all its rows
local objectives = require "moonring.native.objectives"
local system = require "moonring.native.system"
local null = system.null

local keys = {}

--- Rows under a heading, in the order of help.
local function section(title, rows, resume)
  for _, row in ipairs(rows) do row.resume = row.resume or resume end
  keys[#keys + 1] = { title = title, rows = rows }
end

local pref_losses = {}
for i, loss in ipairs(objectives.preference_losses()) do pref_losses[i] = loss.name end

local later = "not supported yet"

section("Model", {
  { "model_name_or_path", "string", null, "the model: a Hugging Face folder, a .gguf file, or "
    .. "builtin:smollm2" },
  { "adapter_name_or_path", "list", null, "adapter folders in PEFT's format: all but the last are "
    .. "merged into the model, the last goes on learning" },
  { "trust_remote_code", "bool", false, "code from a model folder",
    ignored = "no code of a model folder is ever run" },
  { "cache_dir", "string", null, "where a hub keeps its downloads",
    ignored = "nothing is downloaded" },
  { "use_fast_tokenizer", "bool", true, "the tokenizer's kind",
    ignored = "there is one tokenizer" },
  { "resize_vocab", "bool", false, "where the tokenizer has more tokens than the embedding rows, "
    .. "these (and an untied head's) grow to a multiple of 64: new rows are the old ones' mean "
    .. "with noise of 1 / sqrt(hidden size). lora: embedding and head are then trained whole, "
    .. "unless additional_target says what. Absent: true where the data holds a token without "
    .. "a row; false given: such data is refused" },
  { "split_special_tokens", "bool", false, "a special token that is written in a text, the "
    .. "template's among them, is a text like any other" },
  { "add_tokens", "list", null, "tokens to add to the tokenizer, looked for in texts; new ones "
    .. "turn resize_vocab on" },
  { "add_special_tokens", "list", null, "special tokens to add, after add_tokens; also "
    .. "new_special_tokens, 360-LLaMA-Factory's name" },
  { "new_special_tokens_config", "string", null, "in place of add_special_tokens: a YAML file of "
    .. "them, a line \"TOKEN\": \"description\" each; the descriptions are not used" },
  { "rope_scaling", "string", null, "how the rotary embedding is stretched where cutoff_len is "
    .. "beyond the model's context: by ceil(cutoff_len / context)",
    choices = { "linear", "dynamic", "yarn", "llama3" } },
  { "flash_attn", "string", "auto", "the attention kernel",
    ignored = "every kernel here is exact; the fastest that is there is used" },
  { "shift_attn", "bool", false, "shifted sparse attention", only = later },
  { "enable_liger_kernel", "bool", false, "fused kernels",
    ignored = "fused kernels are always on" },
  { "use_unsloth", "bool", false, "Unsloth's kernels", only = later },
  { "use_unsloth_gc", "bool", false, "Unsloth's recompute", ignored = "recompute says it" },
  { "disable_gradient_checkpointing", "bool", false,
    "keep every activation: the same as recompute: none", resume = "free" },
  { "gradient_checkpointing", "bool", false, "recompute of blocks",
    ignored = "it is on unless disable_gradient_checkpointing" },
  { "use_reentrant_gc", "bool", true, "the kind of recompute", ignored = "there is one" },
  { "recompute", "string", "block", "what backward makes again: each block from its input; "
    .. "selective: all of a block but its attention; or nothing; auto: as little as there is "
    .. "memory for (memory_limit)", choices = { "block", "selective", "none", "auto" },
      resume = "free" },
  { "activation_offload", "string", null, "where blocks' inputs wait for their backward, with "
    .. "recompute: block or selective: cpu (host memory; on the CPU they are there anyway) or "
    .. "disk (in "
    .. "files without a name in activation_dir)", choices = { "cpu", "disk" }, resume = "free" },
  { "activation_dir", "string", null, "a folder on a disk for activation_offload: disk; absent: "
    .. "output_dir", resume = "free" },
  { "tile_mib", "int", 64,
    "MiB that a tile of rows may take in a block's MLP, where blocks are recomputed, and of "
    .. "logits at a time; 0: all rows at once", least = 0, resume = "free" },
  { "upcast_layernorm", "bool", false, "norms in fp32", ignored = "norms always are" },
  { "upcast_lmhead_output", "bool", false, "logits in fp32", ignored = "logits always are" },
  { "train_from_scratch", "bool", false, "random weights", only = later },
  { "moe_aux_loss_coef", "float", null, "weight of the load-balancing loss of a mixture of "
    .. "experts, per_device_train_batch_size examples at a time; in pt and sft" },
  { "low_cpu_mem_usage", "bool", true, "load without a second copy",
    ignored = "weights are memory-mapped" },
  { "print_param_status", "bool", false, "print each parameter", ignored = "" },
})

section("Sequence parallel", {
  { "sequence_parallel_size", "int", 1,
    "ranks that share one sequence; divides the number of ranks", least = 1 },
  { "sequence_parallel_mode", "string", "zigzag-ring",
    "how attention is spread over them; auto: chosen for each micro-batch",
    choices = { "zigzag-ring", "ring", "ulysses", "all-gather", "llama3", "usp", "double-ring",
      "auto" } },
  { "sequence_parallel_ulysses_degree", "int", 0,
    "usp: ranks over which heads are split; 0: chosen" },
  { "sequence_parallel_ring_degree", "int", 0, "usp: ranks over which keys travel; the two "
    .. "degrees make up sequence_parallel_size; 0: chosen" },
  { "placement", "string", "head_first", "usp: the axis whose ranks are neighbours, on one machine",
    choices = { "head_first", "context_first" } },
  { "double_ring_window", "int", 0, "double-ring: ranks of a window, a divisor of "
    .. "sequence_parallel_size; 0: those of a machine, or near its root" },
  { "shuffle_for_sequence_parallel", "bool", true, "shuffle before the cut",
    ignored = "the order never depends on sp; disable_shuffling turns it off" },
  { "micro_batch_tokens", "int", null,
    "tokens that one sequence-parallel group puts through one forward pass; absent: "
    .. "cutoff_len x per_device_train_batch_size", least = 1 },
  { "memory_check", "string", "refuse", "where a run is foretold to take more memory than there "
    .. "is: refuse it before training, warn, or do not look (off)",
    choices = { "refuse", "warn", "off" } },
  { "memory_limit", "string", null, "memory that a rank may take by memory_check (80GiB, 500MB, "
    .. "...); absent: what its machine has" },
}, "free")

section("Data", {
  { "dataset", "list", null, "names from dataset_info.json" },
  { "eval_dataset", "list", null, "names of data sets to evaluate on; excludes val_size",
    resume = "free" },
  { "dataset_dir", "string", "data", "the folder of dataset_info.json", resume = "free" },
  { "template", "string", null, "the chat template: a name (moonring help templates) or a file of "
    .. "one's own (PATH.lua); absent: told from the model's chat_template, or empty" },
  { "cutoff_len", "int", 2048, "tokens of an example, prompt and response, at most", least = 1 },
  { "overlong", "string", "truncate", "what becomes of a longer example",
    choices = { "truncate", "drop", "error" } },
  { "train_on_prompt", "bool", false, "learn the prompt's tokens too" },
  { "mask_history", "bool", false, "learn the last turn alone" },
  { "streaming", "bool", false, "read the data as it is used, shuffled in a buffer, never all in "
    .. "memory, as LLaMA-Factory orders it; wants max_steps" },
  { "buffer_size", "int", 16384, "streaming: rows of the shuffle buffer" },
  { "mix_strategy", "string", "concat", "data sets one after another, or interleaved until the "
    .. "first is through (under), or all are, each again from its beginning (over) or once",
    choices = { "concat", "interleave_under", "interleave_over", "interleave_once" } },
  { "interleave_probs", "list", null, "how likely each data set is to give the next row; absent: "
    .. "they take turns" },
  { "max_samples", "int", null, "rows of each data set at most" },
  { "val_size", "float", 0.0,
    "examples held out for evaluation: below 1 a part of the data set, else their number",
    least = 0 },
  { "packing", "bool", null, "stage pt: join the texts and cut them at cutoff_len; absent: true "
    .. "there; given as true: at cutoff_len - 1, as LLaMA-Factory does. Stage sft: "
    .. "LLaMA-Factory's rows of cutoff_len tokens, whose texts see each other. Without it "
    .. "documents are packed exactly" },
  { "neat_packing", "bool", false, "stage sft: rows of cutoff_len tokens as LLaMA-Factory forms "
    .. "them, each text by itself" },
  { "ignore_pad_token_for_loss", "bool", true, "no loss on padding",
    ignored = "there is no padding" },
  { "preprocessing_batch_size", "int", 1000, "rows that are joined or packed together (packing, "
    .. "neat_packing), or whose answers are exchanged (kto)" },
  { "preprocessing_num_workers", "int", null,
    "threads that prepare rows, no more than cores and rows; absent: the cores of this rank, 16 "
      .. "at most. Examples are "
    .. "the same for any number (LLaMA-Factory's, where rows are packed or mismatched, begin "
    .. "batches of their own)", least = 1, resume = "free" },
  { "dataloader_num_workers", "int", 0, "streaming: parts that each data set is read in, each "
    .. "with a buffer of its own, as the processes of LLaMA-Factory are; 0: one part. Else one "
    .. "thread prepares steps ahead, whatever this says", resume = "free" },
  { "dataloader_pin_memory", "bool", true, "pinned host memory", ignored = "" },
  { "dataloader_drop_last", "bool", false, "leave out what of an epoch fills no batch of "
    .. "per_device_train_batch_size x dp; a stream has every row, as in LLaMA-Factory" },
  { "overwrite_cache", "bool", false, "compute reference log-probs again; prepared data is not "
    .. "cached", resume = "free" },
  { "tokenized_path", "string", null, "a folder of prepared data, in the form of the datasets "
    .. "library's save_to_disk, which LLaMA-Factory writes: read in place of the data sets where "
    .. "it is there, else written once they are prepared", resume = "free" },
  { "default_system", "string", null, "the system prompt where an example has none" },
  { "tool_format", "string", null, "how tools and their calls are written, by name; absent: as "
    .. "the template does" },
  { "enable_thinking", "bool", true, "reasoning templates: an answer without a thought learns an "
    .. "empty one; false: thoughts are taken out, an empty one is given; null: they stay, and an "
    .. "empty one is given where there is none", nullable = true },
  { "preserve_thinking", "bool", false, "reasoning templates: earlier answers keep their thoughts "
    .. "in pairs, judged answers, chats and with mask_history" },
  { "eval_on_each_dataset", "bool", false, "evaluate the data sets of eval_dataset one by one: "
    .. "eval_NAME_loss and so on", resume = "free" },
  { "group_by_length", "bool", false, "batches of like lengths", only = later },
  { "data_shared_file_system", "bool", false, "one node prepares for all", ignored = "" },
  { "remove_unused_columns", "bool", false, "drop columns", ignored = "" },
})

section("Method", {
  { "stage", "string", "sft", "pre-training, supervised fine-tuning, a reward model, preferences "
    .. "between pairs (pref_loss), or single answers judged (KTO)",
    choices = { "pt", "sft", "rm", "dpo", "kto" }, others = { "ppo" } },
  { "finetuning_type", "string", "lora", "which weights learn: all, a low-rank adapter's, or "
    .. "those of some layers", choices = { "full", "lora", "freeze" }, others = { "oft" } },
  { "pure_bf16", "bool", false, "bf16 weights and matmuls" },
  { "bf16", "bool", false, "fp32 weights and states, bf16 matmuls" },
  { "fp64", "bool", false, "fp64 weights and matmuls, to measure rounding by" },
  { "fp16", "bool", false, "fp16 with loss scaling", only = "use bf16" },
  { "tf32", "bool", null, "TF32 matmuls on a GPU", ignored = "fp32 means fp32" },
  { "count", "string", "labels", "what the loss is divided by: labels before the shift, as "
    .. "LLaMA-Factory does, or predictions", choices = { "labels", "targets" } },
  { "disable_shuffling", "bool", false, "take the examples in their order" },
  { "use_dft_loss", "bool", false, "stage sft: each token's loss is weighted by its probability "
    .. "(DFT, arXiv 2508.05629)" },
  { "use_eaft_loss", "bool", false, "stage sft: each token's loss is weighted by (entropy of the "
    .. "20 likeliest ids / 3) ^ eaft_alpha (EAFT)" },
  { "eaft_alpha", "float", 1.0, "of use_eaft_loss" },
  { "use_asft_loss", "bool", false, "ASFT's loss", only = later },
  { "label_smoothing_factor", "float", 0.0,
    "stages pt and sft: this part of each target is spread over the vocabulary. Divided by "
    .. "the step's count like any loss (LLaMA-Factory's grows with accumulation)",
    least = 0, most = 1 },
  { "neftune_noise_alpha", "float", null,
    "uniform noise of +-alpha / sqrt(tokens x hidden size) on the embeddings while training "
    .. "(NEFTune, arXiv 2310.05914); tokens: of the document", least = 0 },
  { "compute_accuracy", "bool", false, "stages pt and sft: accuracy of the tokens in evaluation; "
    .. "a reward model's is always there", resume = "free" },
  { "early_stopping_steps", "int", null,
    "end after so many evaluations in a row without a better metric_for_best_model",
    least = 1, resume = "free" },
})

section("Preferences", {
  { "pref_loss", "string", "sigmoid", "stage dpo: the loss of a pair; its formula and source are "
    .. "in objectives/preference_losses.cc",
    choices = pref_losses },
  { "pref_beta", "float", 0.1, "how much a log-ratio to the reference weighs" },
  { "pref_ftx", "float", 0.0, "weight of the chosen answer's own mean loss, added", least = 0 },
  { "pref_bco_weight", "float", 0.0, "weight of BCO's loss beside it", least = 0 },
  { "simpo_gamma", "float", 0.5, "SimPO's margin; used as simpo_gamma / pref_beta" },
  { "dpo_label_smoothing", "float", 0.0, "part of the pairs that are labelled wrongly: sigmoid "
    .. "(cDPO) and robust" },
  { "ld_alpha", "float", null, "weight of the tokens beyond the shorter answer's length (LD-DPO); "
    .. "not in the reference" },
  { "kto_chosen_weight", "float", 1.0, "stage kto: weight of desired answers", least = 0 },
  { "kto_rejected_weight", "float", 1.0, "stage kto: weight of undesired ones", least = 0 },
  { "ref_model", "string", null, "the reference model; absent: the model as it is before training "
    .. "(LoRA: with its adapter off)" },
  { "ref_model_adapters", "list", null, "adapter folders merged into ref_model" },
  { "precompute_ref_log_probs", "bool", false, "compute the reference's log-probs once and keep "
    .. "them in output_dir; then no reference model is held", resume = "free" },
})

section("LoRA", {
  { "lora_rank", "int", 8, "columns of the low-rank matrices", least = 1 },
  { "lora_alpha", "int", null, "their product is scaled by lora_alpha / lora_rank; absent: 2 x "
    .. "lora_rank" },
  { "lora_dropout", "float", 0.0,
    "of the adapter's input while training; none in stages dpo and kto, as in LLaMA-Factory",
    least = 0, most = 1 },
  { "lora_target", "list", "all", "linear modules by name, or all of the blocks'" },
  { "additional_target", "list", null, "modules that learn whole beside the adapter and are saved "
    .. "with it: embed_tokens, lm_head, norm" },
  { "use_rslora", "bool", false, "scale by lora_alpha / sqrt(lora_rank)" },
  { "use_dora", "bool", false, "learn a magnitude a row beside the direction (DoRA)" },
  { "loraplus_lr_ratio", "float", null, "LoRA+: the rate of B over that of A" },
  { "loraplus_lr_embedding", "float", 1e-6, "LoRA+: the rate of adapted embeddings",
    ignored = "no adapter is put on an embedding" },
  { "create_new_adapter", "bool", false, "merge every adapter_name_or_path and begin a new one" },
  { "pissa_init", "bool", false, "PiSSA", only = later },
  { "pissa_iter", "int", 16, "PiSSA", ignored = "as pissa_init" },
  { "pissa_convert", "bool", false, "PiSSA", only = later },
})

section("Freeze", {
  { "freeze_trainable_layers", "int", 2, "layers that learn: the last n, or the first -n" },
  { "freeze_trainable_modules", "list", "all",
    "modules of those layers that learn: self_attn, mlp, input_layernorm, ..." },
  { "freeze_extra_modules", "list", null, "modules outside the layers that learn too: "
    .. "embed_tokens, norm, lm_head" },
  { "use_llama_pro", "bool", false, "expanded blocks", only = later },
})

section("Optimization", {
  { "per_device_train_batch_size", "int", 8,
    "examples of a micro-batch for each data-parallel rank", least = 1, resume = "free" },
  { "gradient_accumulation_steps", "int", 1,
    "micro-batches of a step", least = 1, resume = "free" },
  { "global_batch_size", "int", null,
    "examples of a step on all ranks; absent: per_device_train_batch_size x "
    .. "gradient_accumulation_steps x dp", least = 1, resume = "free" },
  { "learning_rate", "float", 5e-5, "its peak", least = 0, resume = "told" },
  { "num_train_epochs", "float", 3.0, "passes over the data", least = 0, resume = "told" },
  { "max_steps", "int", -1, "steps in all; above 0 it wins over num_train_epochs",
    resume = "told" },
  { "lr_scheduler_type", "string", "linear", "how the rate falls",
    choices = { "linear", "cosine", "cosine_with_restarts", "cosine_with_min_lr",
    "cosine_warmup_with_min_lr", "polynomial", "inverse_sqrt", "warmup_stable_decay", "constant",
      "constant_with_warmup" }, others = { "reduce_lr_on_plateau" }, resume = "told" },
  { "lr_scheduler_kwargs", "any", null, "options of the schedule: num_cycles, min_lr, "
    .. "min_lr_rate, warmup_lr_rate, lr_end, power, num_stable_steps, num_decay_steps, "
    .. "warmup_type, decay_type, min_lr_ratio", resume = "told" },
  { "warmup_ratio", "float", 0.0, "part of the steps in which the rate rises", resume = "told" },
  { "warmup_steps", "int", 0, "steps in which it rises; above 0 it wins over the ratio",
    resume = "told" },
  { "optim", "string", "adamw_torch", "AdamW with fp32 state, or plain gradient descent",
    choices = { "adamw_torch", "adamw_torch_fused", "sgd" } },
  { "optim_args", "string", null, "options of the optimizer", only = later },
  { "weight_decay", "float", 0.0, "decoupled; not on biases and norms", resume = "told" },
  { "adam_beta1", "float", 0.9, "AdamW's first moment", resume = "told" },
  { "adam_beta2", "float", 0.999, "AdamW's second moment", resume = "told" },
  { "adam_epsilon", "float", 1e-8, "AdamW's epsilon", resume = "told" },
  { "max_grad_norm", "float", 1.0,
    "gradients of a larger norm are scaled down to it; 0: never", least = 0, resume = "told" },
  { "spike_clip", "string", null, "clip besides by the history of norms: zclip (arXiv 2504.02507) "
    .. "brings one that is more than 2.5 standard deviations above the running mean back towards "
    .. "it, after 25 steps",
    choices = { "zclip" }, resume = "told" },
  { "on_nonfinite", "string", "stop", "a step whose loss or gradient is NaN or infinite: stop "
    .. "before its update, or skip: leave it out, and say so (10 in a row stop the run)",
    choices = { "stop", "skip" }, resume = "told" },
  { "average_tokens_across_devices", "bool", true, "one divisor for all ranks",
    only = "there is one divisor, of the whole step" },
})

section("States", {
  { "zero_stage", "int", 0,
    "what is sharded over the ranks of zero_group: 1: the optimizer's state; 2: gradients "
    .. "too; 3: weights too, gathered a block ahead and let go after it. The numbers are the "
    .. "same", least = 0, most = 3 },
  { "zero_group", "string", "world", "over which ranks: all, those of a sequence (sp), or those "
    .. "of a machine (node, by LOCAL_WORLD_SIZE); groups sum their shards' gradients with one "
    .. "another",
    choices = { "world", "sp", "node" } },
  { "offload_optimizer", "string", null, "where the optimizer's state is, and where it makes its "
    .. "step: in the host's memory, or in a file that is mapped piece by piece",
    choices = { "cpu", "disk" } },
  { "offload_dir", "string", null, "offload_optimizer: disk: the folder of that file, which has "
    .. "no name and is gone with the run; absent: output_dir" },
  { "deepspeed", "any", null, "DeepSpeed's JSON file: what it says of ZeRO and offload becomes "
    .. "zero_stage, zero_group, offload_optimizer and offload_dir; what has no equal here is "
    .. "refused by name" },
  { "fsdp", "any", null, "sharded states", warned = "zero_stage parts the states; the numbers are "
    .. "the same" },
  { "fsdp_config", "any", null, "sharded states", ignored = "as fsdp" },
  { "fsdp_min_num_params", "int", 0, "sharded states", ignored = "as fsdp" },
  { "fsdp_transformer_layer_cls_to_wrap", "string", null, "sharded states", ignored = "as fsdp" },
}, "free")

section("Run", {
  { "output_dir", "string", null, "where the model, the log and the plot go" },
  { "overwrite_output_dir", "bool", false, "write into a folder that is not empty" },
  { "do_train", "bool", false, "train", ignored = "this command trains" },
  { "do_eval", "bool", false, "evaluate after the training too; so it is wherever eval_strategy "
    .. "is not no" },
  { "do_predict", "bool", false, "predict", only = later },
  { "predict_with_generate", "bool", false, "generate in evaluation", only = later },
  { "seed", "int", 42, "of the order of examples", resume = "refused" },
  { "data_seed", "int", null, "the same, where it differs from seed", resume = "refused" },
  { "full_determinism", "bool", false,
    "on a GPU: kernels that give the same bits each time. Attention's backward takes more time for "
    .. "it, and where a micro-batch has few documents and heads more memory, which plan counts. On "
    .. "the CPU runs repeat bit for bit anyway" },
  { "logging_steps", "int", 500, "steps between lines of the log", least = 1 },
  { "logging_first_step", "bool", false, "log the first step too" },
  { "logging_dir", "string", null, "of a logger", ignored = "trainer_log.jsonl is in output_dir" },
  { "logging_strategy", "string", "steps", "when to log", only = later },
  { "report_to", "list", "none", "loggers", warned = "trainer_log.jsonl has it all" },
  { "run_name", "string", null, "a name for loggers", ignored = "" },
  { "plot_loss", "bool", false, "draw training_loss.png" },
  { "memory_report", "bool", false, "tell after the first step and at the end what each byte is "
    .. "for at the peak: weights, gradients, optimizer, checkpoint inputs and so on, beside what "
    .. "the kernel counts; memory_report.json. The log then has peak_anonymous_bytes" },
  { "sample_prompt", "string", null, "a question that the model answers before and after the "
    .. "training" },
  { "save_strategy", "string", "steps", "when a checkpoint-N is written; best: after an "
    .. "evaluation that is the best so far, by metric_for_best_model",
    choices = { "no", "steps", "epoch", "best" } },
  { "save_steps", "float", 500, "steps between checkpoints; below 1: a part of all steps. The "
    .. "last step has one too" },
  { "save_total_limit", "int", null, "checkpoints kept; the best one is kept besides", least = 1 },
  { "save_only_model", "bool", false, "checkpoints hold the model alone: no run can go on from "
    .. "them" },
  { "save_safetensors", "bool", true, "the format", ignored = "it is always safetensors" },
  { "eval_strategy", "string", "no", "when to evaluate", choices = { "no", "steps", "epoch" } },
  { "eval_steps", "float", null, "steps between evaluations; below 1: a part of all steps; "
    .. "absent: logging_steps" },
  { "eval_on_start", "bool", false, "evaluate before the first step" },
  { "per_device_eval_batch_size", "int", 8,
    "rows of an evaluation batch; eval_loss is the mean of the batches' means, by rows",
    least = 1 },
  { "load_best_model_at_end", "bool", false, "end with the best checkpoint; save_strategy and "
    .. "eval_strategy must agree, or save_strategy be best" },
  { "metric_for_best_model", "string", null, "which number of an evaluation says so; absent: "
    .. "loss" },
  { "greater_is_better", "bool", null, "absent: unless the metric ends in loss" },
  { "resume_from_checkpoint", "any", null, "go on from a checkpoint: true (the newest whole one "
    .. "in output_dir), auto (the same, and from the beginning where there is none), or its "
    .. "folder" },
  { "ignore_data_skip", "bool", false, "go on at the data's beginning, and whatever has changed "
    .. "in the configuration; the steps count on, and end where they would" },
  { "ddp_timeout", "float", 1800,
    "seconds that a collective may take: by then a rank that lives and does not answer is "
    .. "given up. A dead one is noticed within seconds", least = 0 },
  { "max_restarts", "int", 0,
    "how often the ranks that this machine's launcher started are started again after one "
    .. "has failed, from the newest checkpoint of the run; torchrun has its own "
    .. "--max-restarts, which is honoured", least = 0, most = 1000 },
  { "use_cpu", "bool", false, "no GPU; the same as --device cpu" },
  { "include_num_input_tokens_seen", "bool", false, "count tokens",
    ignored = "the log always has them" },
  { "include_effective_tokens_per_second", "bool", false, "token rate",
    ignored = "the log always has it" },
}, "free")

section("Export", {
  { "export_dir", "string", null, "moonring export: the folder to write the merged model to" },
  { "export_size", "int", 5, "GB of a file at most" },
  { "export_device", "string", "cpu", "where it is merged", ignored = "in memory" },
  { "export_legacy_format", "bool", false, "pytorch_model.bin", only = "safetensors alone" },
}, "free")

section("Generation", {
  { "max_new_tokens", "int", 1024, "tokens of an answer at most" },
  { "temperature", "float", 0.95, "of sampling" },
  { "top_p", "float", 0.7, "nucleus" },
  { "top_k", "int", 50, "tokens considered" },
  { "repetition_penalty", "float", 1.0, "of tokens already there" },
  { "do_sample", "bool", null, "sample; absent: where temperature, top_p or top_k is given; else "
    .. "the likeliest token" },
  { "num_beams", "int", 1, "beam search", only = later },
}, "free")

for _, foreign in ipairs(require "moonring.config.foreign_keys") do section(foreign.title,
  foreign.rows) end

--- Other names of the same keys: LLaMA-Factory 1.0's and axolotl's.
keys.aliases = { cp_size = "sequence_parallel_size", cp_mode = "sequence_parallel_mode",
  context_parallel_size = "sequence_parallel_size",
  new_special_tokens = "add_special_tokens" }

return keys
