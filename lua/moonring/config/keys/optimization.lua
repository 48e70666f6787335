--- Keys of the optimizer, the schedule, and where states lie. What a row says: keys/init.lua.
local optimizers = require "moonring.choices.optimizers"
local null = require("moonring.native.system").null
local wraps = "the model's own blocks are what is sharded"

return {
  { title = "Optimization", rows = {
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
    { "lr_scheduler_type", "string", "linear", "how the rate falls; or a Lua file that returns a "
      .. "schedule, a function of (k, total, config) (docs/scripting.md)", own_file = true,
      choices = { "linear", "cosine", "cosine_with_restarts", "cosine_with_min_lr",
      "cosine_warmup_with_min_lr", "polynomial", "inverse_sqrt", "warmup_stable_decay", "constant",
        "constant_with_warmup" }, others = { "reduce_lr_on_plateau" }, resume = "told" },
    { "lr_scheduler_kwargs", "any", null, "options of the schedule: num_cycles, min_lr, "
      .. "min_lr_rate, warmup_lr_rate, lr_end, power, num_stable_steps, num_decay_steps, "
      .. "warmup_type, decay_type, min_lr_ratio", resume = "told" },
    { "warmup_ratio", "float", 0.0, "part of the steps in which the rate rises", least = 0,
      most = 1, resume = "told" },
    { "warmup_steps", "float", 0, "steps in which it rises; above 0 it wins over the ratio; below "
      .. "1: a part of all steps, as in Transformers 5", least = 0, resume = "told" },
    { "optim", "string", "adamw_torch", "the optimizer (docs/optimizers.md); or a "
      .. "Lua file that returns an optimizer, or a function of (config, model) that makes it "
      .. "(docs/scripting.md)", own_file = true, choices = optimizers.names() },
    { "optim_args", "any", null, "options of the optimizer, as \"momentum=0.9, "
      .. "nesterov=true\" or as a map (docs/optimizers.md)" },
    { "weight_decay", "float", 0.0, "decoupled; not on biases and norms", least = 0,
      resume = "told" },
    { "adam_beta1", "float", 0.9, "AdamW's first moment", least = 0, below = 1,
      resume = "told" },
    { "adam_beta2", "float", 0.999, "AdamW's second moment", least = 0, below = 1,
      resume = "told" },
    { "adam_epsilon", "float", 1e-8, "AdamW's epsilon", least = 0, resume = "told" },
    { "max_grad_norm", "float", 1.0,
      "gradients of a larger norm are scaled down to it; 0: never", least = 0, resume = "told" },
    { "spike_clip", "string", null, "clip besides by the history of norms: zclip (arXiv "
      .. "2504.02507) "
      .. "brings one that is more than 2.5 standard deviations above the running mean back towards "
      .. "it, after 25 steps",
      choices = { "zclip" }, resume = "told" },
    { "on_nonfinite", "string", "stop", "a step whose loss or gradient is NaN or infinite: stop "
      .. "before its update, or skip: leave it out, and say so (10 in a row stop the run)",
      choices = { "stop", "skip" }, resume = "told" },
    { "average_tokens_across_devices", "bool", true, "one divisor for all ranks",
      only = "there is one divisor, of the whole step" },
  } },
  { title = "Local steps", rows = {
    { "local_steps", "int", 1, "steps that each sp group makes by itself, on its share of the "
      .. "batch and divided by its own count, before the groups' weights are averaged: 1 / "
      .. "local_steps of the gradients' bytes between groups. 1 without the keys below: one step "
      .. "over all ranks (docs/optimizers.md)", least = 1 },
    { "outer_learning_rate", "float", 1.0, "of the step that the groups' common point makes by "
      .. "their average move; 1: to the average", least = 0 },
    { "outer_momentum", "float", 0.0, "the momentum of that step (SlowMo, arXiv "
      .. "1910.00643; DiLoCo, arXiv 2311.08105, has 0.9 with outer_learning_rate 0.7 and "
      .. "outer_nesterov)", least = 0 },
    { "outer_nesterov", "bool", false, "that momentum is Nesterov's" },
    { "outer_momentum_clip", "float", null, "each number of that momentum is clipped to it (after "
      .. "CO2); absent: never", least = 0 },
    { "outer_overlap", "bool", false, "a round's average travels while the next local_steps run, "
      .. "and acts at their end (after CO2, arXiv 2401.16265)" },
  } },
  { title = "States", resume = "free", rows = {
    { "zero_stage", "int", 0,
      "what is sharded over the ranks of zero_group: 1: the optimizer's state; 2: gradients "
      .. "too; 3: weights too, gathered a block ahead and let go after it. The numbers are the "
      .. "same", least = 0, most = 3 },
    { "zero_group", "string", "world", "over which ranks: all, those of a sequence (sp), or those "
      .. "of a machine (node, by LOCAL_WORLD_SIZE); groups sum their shards' gradients with one "
      .. "another",
      choices = { "world", "sp", "node" } },
    { "expert_parallel_size", "int", 1, "of a mixture of experts: over how many neighbouring ranks "
      .. "of dp x sp the experts of each layer are spread. A rank holds and trains its own alone, "
      .. "whatever zero_stage; tokens travel to their experts and back. The numbers are the same. "
      .. "Not with offload, adapters on experts, or an optimizer in Lua", least = 1 },
    { "offload_optimizer", "string", null, "where the optimizer's state is, and where it makes its "
      .. "step: in the host's memory, or in a file that is mapped piece by piece",
      choices = { "cpu", "disk" } },
    { "offload_weights", "string", null, "cpu: matrices lie in the memory of a GPU's host, in the "
      .. "products' dtype (masters beside them), and come to the GPU a block ahead; with "
      .. "zero_stage 0 or 3, and offload_optimizer for those that learn", choices = { "cpu" } },
    { "optimizer_state", "string", "fp32", "in what AdamW's two numbers a weight are held between "
      .. "steps: fp32 takes 8 bytes a weight, bf16 4 (the squares rounded at random, from "
      .. "counters), 8bit 2 (block-wise dynamic codes; optim: adamw_8bit is the same)",
      choices = { "fp32", "bf16", "8bit" }, resume = "told" },
    { "cast_weights", "string", "auto", "with bf16 or fp16, when matrices that learn are cast: at "
      .. "each lease, or once a step and kept, which takes 2 bytes a weight more where states are "
      .. "neither sharded nor offloaded. auto: step on a GPU that has the room, else lease",
      choices = { "auto", "lease", "step" } },
    { "offload_dir", "string", null, "offload_optimizer: disk: the folder of that file, which has "
      .. "no name and is gone with the run; absent: output_dir", machine = true },
    { "deepspeed", "any", null, "DeepSpeed's JSON file: what it says of ZeRO and offload becomes "
      .. "zero_stage, zero_group, offload_optimizer, offload_weights and offload_dir; what has "
      .. "no equal here is refused by name", machine = true },
    { "fsdp", "any", null, "PyTorch's FSDP, in Transformers' words: full_shard becomes zero_stage "
      .. "3, shard_grad_op 2, no_shard 0; hybrid_shard and hybrid_shard_zero2 the same over "
      .. "zero_group: node; offload becomes offload_optimizer: cpu, and with stage 3 "
      .. "offload_weights: cpu; auto_wrap says what is so anyway" },
    { "fsdp_config", "any", null, "FSDP's settings, a file (JSON, or accelerate's YAML) or a map, "
      .. "with or without fsdp_ before the names. Without fsdp they ask for it; what has no equal "
      .. "here is refused by name, what has no effect is said once", machine = true },
    { "fsdp_min_num_params", "int", 0, "of fsdp", ignored = wraps },
    { "fsdp_transformer_layer_cls_to_wrap", "string", null, "of fsdp", ignored = wraps },
  } },
}
