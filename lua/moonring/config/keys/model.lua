--- Keys of the model and of sequence parallelism. Fields of a row: keys/init.lua.
local adapter_kinds = require "moonring.choices.adapter_kinds"
local attention = require "moonring.native.attention"
local mixing = require "moonring.native.mixing"
local null = require("moonring.native.system").null

return {
  { title = "Model", rows = {
    { "model_name_or_path", "string", null, "the model: a Hugging Face folder, a .gguf file, "
      .. "builtin:smollm2, or a name on a hub (ORG/NAME, docs/models.md)", machine = true },
    { "adapter_name_or_path", "list", null, "adapter folders in PEFT's format, or names on a hub: "
      .. "all but the last are merged into the model; the last one is trained further",
      finetuning = adapter_kinds.all, machine = true },
    { "model_revision", "string", "main", "revision of models and adapters on a hub: a branch, a "
      .. "tag or a commit" },
    { "hf_hub_token", "string", null, "the access token for the hub; absent: HF_TOKEN, or the one "
      .. "stored by `hf auth login`. It is never written to files or logs",
      machine = true, resume = "free",
      secret = true },
    { "cache_dir", "string", null, "the folder for downloads from a hub; absent: HF_HUB_CACHE, or "
      .. "~/.cache/huggingface/hub", machine = true, resume = "free" },
    { "resize_vocab", "bool", false, "if the tokenizer has more tokens than the embedding has "
      .. "rows, enlarge the embedding (and an untied head) to a multiple of 64: new rows are the "
      .. "mean of the old ones plus noise of 1 / sqrt(hidden size). lora: embedding and head are "
      .. "then fully trained, unless additional_target is set. Absent: true if the data contains a "
      .. "token without a row; false: such data is refused" },
    { "split_special_tokens", "bool", false, "treat special tokens that occur in a text, including "
      .. "the template's, as ordinary text" },
    { "add_tokens", "list", null, "tokens to add to the tokenizer, recognized in texts; new ones "
      .. "enable resize_vocab" },
    { "add_special_tokens", "list", null, "special tokens to add, after add_tokens; "
      .. "360-LLaMA-Factory's name is new_special_tokens" },
    { "new_special_tokens_config", "string", null, "instead of add_special_tokens: a YAML file "
      .. "with a line \"TOKEN\": \"description\" for each token; descriptions are not used",
      machine = true },
    { "init_special_tokens", "string", "noise_init", "initialization of embedding rows for the "
      .. "tokens in new_special_tokens_config: as with resize_vocab", choices = { "noise_init" },
      others = { "desc_init", "desc_init_w_noise" } },
    { "rope_scaling", "string", null, "scaling of the rotary embedding if cutoff_len exceeds the "
      .. "model's context: by ceil(cutoff_len / context)",
      choices = { "linear", "dynamic", "yarn", "llama3" } },
    { "shift_attn", "bool", false, "stages pt, sft and rm: shifted sparse attention (LongLoRA's "
      .. "S2-Attn) in training: each head attends within groups of a quarter of a document; for "
      .. "half of the heads the groups are shifted by half a group (docs/sequence-parallelism.md). "
      .. "Evaluation uses attention over whole documents", stages = { "pt", "sft", "rm" } },
    { "disable_gradient_checkpointing", "bool", false,
      "keep every activation: the same as recompute: none", resume = "free" },
    { "recompute", "string", "block", "what backward recomputes: each block from its input; "
      .. "selective: all of a block but its attention; none: nothing; auto: as little as memory "
      .. "allows (memory_limit)", choices = { "block", "selective", "none", "auto" },
        resume = "free" },
    { "activation_offload", "string", null, "where the inputs of blocks are stored until backward, "
      .. "with recompute: block or selective: cpu (host memory; no change on the CPU) or disk "
      .. "(unnamed temporary files in activation_dir)",
      choices = { "cpu", "disk" }, resume = "free" },
    { "activation_dir", "string", null, "the folder for activation_offload: disk; absent: "
      .. "output_dir", resume = "free", machine = true },
    { "tile_mib", "int", 64, "MiB of activations for a tile of rows in the MLP of a recomputed "
      .. "block, and for a tile of logits; 0: all rows at once", least = 0, resume = "free" },
    { "tile_rows", "int", 0, "minimum number of rows of such a tile, whatever their size; 0: 512 "
      .. "on the CPU, 8192 on a GPU", least = 0, resume = "free" },
    { "logit_rows", "int", 0, "minimum number of rows of logits computed at a time, whatever their "
      .. "size; 0: 1 on the CPU, 4096 on a GPU", least = 0, resume = "free" },
    { "residual_dtype", "string", "fp32", "dtype of the residual stream between and inside blocks. "
      .. "bf16, together with bf16 or pure_bf16, halves the memory of stored activations but makes "
      .. "gradients less exact (docs/memory.md has figures). Norms are computed in fp32 either way",
        choices = { "fp32", "bf16" } },
    { "cpu_products", "string", "auto", "library for fp32 matmuls on the CPU: mkl, onednn "
      .. "(requires AVX-512), or as onednn:forward+input_gradient those matmuls that use oneDNN; "
      .. "auto: measured at the start, or for a resumed run the checkpoint's choice",
      resume = "free" },
    { "train_from_scratch", "bool", false, "initialize weights randomly by config.json and seed, "
      .. "as Transformers does; no file of weights is read, and none is needed. Requires "
      .. "finetuning_type: full or freeze" },
    { "moe_aux_loss_coef", "float", null, "weight of the load-balancing loss of a mixture of "
      .. "experts, computed over groups of per_device_train_batch_size examples. pt and sft: the "
      .. "sum over groups, as in LLaMA-Factory; dpo and kto: their mean, as in TRL's trainers "
      .. "(LLaMA-Factory's accept the key and ignore it)",
      least = 0, stages = { "pt", "sft", "dpo", "kto" } },
    { "print_param_status", "bool", false, "list all weights before training: name, dtype, shape, "
      .. "device, and whether it is trainable", resume = "free" },
  } },
  { title = "Sequence parallel", resume = "free", rows = {
    { "sequence_parallel_size", "int", 1, "number of ranks that share a sequence; must divide the "
      .. "number of ranks", least = 1 },
    { "sequence_parallel_mode", "string", "zigzag-ring", "the strategy of sequence-parallel "
      .. "attention; auto: chosen for each micro-batch",
      choices = attention.names() },
    { "sequence_parallel_ulysses_degree", "int", 0, "usp: ranks over which heads are split; 0: "
      .. "chosen automatically", least = 0,
      of = { "sequence_parallel_mode", "usp", "auto" } },
    { "sequence_parallel_ring_degree", "int", 0, "usp: ranks of the ring that keys and values are "
      .. "sent around; the product of both degrees is sequence_parallel_size; 0: chosen "
      .. "automatically", least = 0,
      of = { "sequence_parallel_mode", "usp", "auto" } },
    { "placement", "string", "head_first", "usp: the axis whose ranks are neighbours, on one "
      .. "machine",
      choices = { "head_first", "context_first" },
      of = { "sequence_parallel_mode", "usp", "auto" } },
    { "double_ring_window", "int", 0, "double-ring: ranks of a window, a divisor of "
      .. "sequence_parallel_size; 0: the ranks of a machine, or near the square root of "
      .. "sequence_parallel_size", least = 0,
      of = { "sequence_parallel_mode", "double-ring", "auto" } },
    { "linear_attention_mode", "string", "auto", "parallelization of linear attention layers "
      .. "(gated delta rule) over sequence_parallel_size ranks. heads: all-to-all, so that each "
      .. "rank has some heads of all tokens; spans: state transitions are exchanged at once; "
      .. "relay: states are sent from rank to rank; auto: the fastest by an estimate, for each "
      .. "micro-batch",
      choices = mixing.names() },
    { "attention_kernels", "string", "auto", "attention kernels on a GPU in 16 bits: flash, cudnn, "
      .. "or for example flash<8192<=cudnn: cuDNN for documents from that length on; a suffix \", "
      .. "cudnn=4096\" selects cuDNN for documents of exactly that length. auto: measured at the "
      .. "start, or for a resumed run the checkpoint's choice" },
    { "shuffle_for_sequence_parallel", "bool", true, "shuffle before sequences are cut",
      only = "the order does not depend on sp; to turn shuffling off set disable_shuffling: true" },
    { "micro_batch_tokens", "int", null, "maximum tokens of a micro-batch: what one sp group "
      .. "processes in one forward pass; absent: cutoff_len x per_device_train_batch_size",
      least = 1 },
    { "share_prefixes", "bool", false, "dpo, rm and stages that generate: compute the common "
      .. "prefix of a pair, or of all completions of a prompt, only once, up to the first trained "
      .. "token; gradients are the same, in less time. The length of an example, or group, is then "
      .. "that of the prefix and of all remainders. Not with noise (neftune_noise_alpha, rm's "
      .. "lora_dropout), custom masks, or a rotary embedding that depends on a document's length" },
    { "auto_find_batch_size", "bool", false, "halve micro_batch_tokens if memory is insufficient: "
      .. "before the first step until the run is predicted to fit (memory_check), and when memory "
      .. "runs out in a step, which is then repeated; batch sizes do not change. The latter needs "
      .. "ranks that compute independently: sequence_parallel_size 1 and zero_stage 0 or 1, or a "
      .. "single rank" },
    { "memory_check", "string", "refuse", "if a run is predicted to need more memory than "
      .. "available: refuse it before training, warn, or do not check (off)",
      choices = { "refuse", "warn", "off" }, machine = true },
    { "memory_limit", "string", null, "memory per rank for memory_check (80GiB, 500MB, ...); "
      .. "absent: that of the machine", machine = true },
  } },
}
