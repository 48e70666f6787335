--- Keys of the optimizer, the schedule, and the storage of states. Fields of a row: keys/init.lua.
local optimizers = require "moonring.choices.optimizers"
local null = require("moonring.native.system").null

return {
  { title = "Optimization", rows = {
    { "per_device_train_batch_size", "int", 8, "examples of a micro-batch per data-parallel rank",
      least = 1, resume = "free" },
    { "gradient_accumulation_steps", "int", 1, "micro-batches per step",
      least = 1, resume = "free" },
    { "global_batch_size", "int", null, "examples per step over all ranks; absent: "
      .. "per_device_train_batch_size x gradient_accumulation_steps x dp",
      least = 1, resume = "free" },
    { "learning_rate", "float", 5e-5, "peak learning rate", least = 0, resume = "told" },
    { "num_train_epochs", "float", 3.0, "passes over the data", least = 0, resume = "told" },
    { "max_steps", "int", -1, "total number of steps; above 0 it wins over num_train_epochs",
      resume = "told" },
    { "lr_scheduler_type", "string", "linear", "the learning-rate schedule; or a Lua file that "
      .. "returns a custom one, a function of (k, total, config) (docs/scripting.md)",
      own_file = true,
      choices = { "linear", "cosine", "cosine_with_restarts", "cosine_with_min_lr",
      "cosine_warmup_with_min_lr", "polynomial", "inverse_sqrt", "warmup_stable_decay", "constant",
        "constant_with_warmup" }, others = { "reduce_lr_on_plateau" }, resume = "told" },
    { "lr_scheduler_kwargs", "any", null, "options of the schedule: num_cycles, min_lr, "
      .. "min_lr_rate, warmup_lr_rate, lr_end, power, num_stable_steps, num_decay_steps, "
      .. "warmup_type, decay_type, min_lr_ratio", resume = "told" },
    { "warmup_ratio", "float", 0.0, "fraction of the steps that are used for warmup", least = 0,
      most = 1, resume = "told" },
    { "warmup_steps", "float", 0, "warmup steps; above 0 it wins over warmup_ratio; below 1: a "
      .. "fraction of all steps, as in Transformers 5", least = 0, resume = "told" },
    { "optim", "string", "adamw_torch", "the optimizer (docs/optimizers.md); or a Lua file that "
      .. "returns a custom one, or a function of (config, model) that creates it "
      .. "(docs/scripting.md)", own_file = true, choices = optimizers.names() },
    { "optim_args", "any", null, "options of the optimizer, as \"momentum=0.9, "
      .. "nesterov=true\" or as a map (docs/optimizers.md)" },
    { "weight_decay", "float", 0.0, "decoupled weight decay; not on biases and norms", least = 0,
      resume = "told" },
    { "adam_beta1", "float", 0.9, "decay rate of AdamW's first moment", least = 0, below = 1,
      resume = "told" },
    { "adam_beta2", "float", 0.999, "decay rate of AdamW's second moment", least = 0, below = 1,
      resume = "told" },
    { "adam_epsilon", "float", 1e-8, "AdamW's epsilon", least = 0, resume = "told" },
    { "max_grad_norm", "float", 1.0, "gradients with a larger norm are scaled down to it; 0: no "
      .. "clipping", least = 0, resume = "told" },
    { "spike_clip", "string", null, "additional clipping by the history of norms: zclip (arXiv "
      .. "2504.02507) reduces norms more than 2.5 standard deviations above the running mean "
      .. "towards it, after 25 steps",
      choices = { "zclip" }, resume = "told" },
    { "on_nonfinite", "string", "stop", "a step with a NaN or infinite loss or gradient: stop "
      .. "before its update, or skip it with a warning (10 consecutive ones stop the run)",
      choices = { "stop", "skip" }, resume = "told" },
    { "average_tokens_across_devices", "bool", true, "one divisor for all ranks",
      only = "the divisor is always that of the whole step" },
  } },
  { title = "Local steps", rows = {
    { "local_steps", "int", 1, "steps that each sp group makes independently, on its share of the "
      .. "batch and divided by its own count, before the groups' weights are averaged; reduces the "
      .. "traffic of gradients between groups to 1 / local_steps. 1, without the keys below: all "
      .. "ranks make each step together (docs/optimizers.md)", least = 1 },
    { "outer_learning_rate", "float", 1.0, "learning rate of the outer step, which moves the "
      .. "groups' synchronization point along their average change; 1: to the average", least = 0 },
    { "outer_momentum", "float", 0.0, "momentum of the outer step (SlowMo, arXiv 1910.00643; "
      .. "DiLoCo, arXiv 2311.08105, has 0.9 with outer_learning_rate 0.7 and outer_nesterov)",
      least = 0 },
    { "outer_nesterov", "bool", false, "use Nesterov momentum in the outer step" },
    { "outer_momentum_clip", "float", null, "clip each number of the outer momentum to this "
      .. "magnitude (after CO2); absent: no clipping", least = 0 },
    { "outer_overlap", "bool", false, "communicate a round's average while the next local_steps "
      .. "run, and apply it at their end (after CO2, arXiv 2401.16265)" },
  } },
  { title = "States", resume = "free", rows = {
    { "zero_stage", "int", 0, "what is sharded over the ranks of zero_group: 1: optimizer states; "
      .. "2: gradients too; 3: weights too, gathered one block ahead and freed after use. Results "
      .. "are the same", least = 0, most = 3 },
    { "zero_group", "string", "world", "ranks that states are sharded over: all (world), those of "
      .. "a sequence (sp), or those of a machine (node, by LOCAL_WORLD_SIZE); gradients of shards "
      .. "are summed over groups",
      choices = { "world", "sp", "node" } },
    { "expert_parallel_size", "int", 1, "mixture of experts: number of neighbouring ranks of dp x "
      .. "sp that the experts of each layer are sharded over. A rank stores and trains only its "
      .. "own experts, whatever zero_stage is; tokens are sent to their experts and back. Results "
      .. "are the same. Not with offload, adapters on experts, or an optimizer in Lua", least = 1 },
    { "offload_optimizer", "string", null, "where the optimizer's state is stored and its step is "
      .. "computed: in host memory (cpu), or in a memory-mapped file (disk)",
      choices = { "cpu", "disk" } },
    { "offload_weights", "string", null, "cpu: matrices are stored in host memory in the dtype of "
      .. "matmuls (next to their masters), and copied to the GPU one block ahead; requires "
      .. "zero_stage 0 or 3, and offload_optimizer if they are trained", choices = { "cpu" } },
    { "optimizer_state", "string", "fp32", "storage of AdamW's two moments between steps: fp32 "
      .. "needs 8 bytes per weight, bf16 4 (second moments with stochastic rounding), 8bit 2 "
      .. "(block-wise dynamic quantization, as optim: adamw_8bit)",
      choices = { "fp32", "bf16", "8bit" }, resume = "told" },
    { "cast_weights", "string", "auto", "with bf16 or fp16, when trainable matrices are cast: "
      .. "lease: for each use; step: once per step, which needs 2 bytes per weight more if states "
      .. "are neither sharded nor offloaded. auto: step on a GPU with enough memory, otherwise "
      .. "lease",
      choices = { "auto", "lease", "step" } },
    { "offload_dir", "string", null, "offload_optimizer: disk: the folder of its unnamed temporary "
      .. "file, which disappears with the run; absent: output_dir", machine = true },
    { "deepspeed", "any", null, "DeepSpeed's JSON file: its ZeRO and offload settings set "
      .. "zero_stage, zero_group, offload_optimizer, offload_weights and offload_dir; settings "
      .. "without an equivalent are refused by name", machine = true },
    { "fsdp", "any", null, "PyTorch's FSDP, in Transformers' terms: full_shard sets zero_stage 3, "
      .. "shard_grad_op 2, no_shard 0; hybrid_shard and hybrid_shard_zero2 additionally set "
      .. "zero_group: node; offload sets offload_optimizer: cpu, and with stage 3 offload_weights: "
      .. "cpu; auto_wrap has no effect" },
    { "fsdp_config", "any", null, "FSDP's settings, a file (JSON, or accelerate's YAML) or a map; "
      .. "names may begin with fsdp_. Enables FSDP without fsdp; settings without an equivalent "
      .. "are refused by name, those without effect are listed once", machine = true },
    { "accelerator_config", "any", null, "accelerate's settings, a JSON file or a map: settings "
      .. "that would change results are refused by name; those without effect are listed once",
      machine = true, resume = "refused" },
  } },
}
