--- Keys of the model, and of the ranks that share a sequence. What a row says: keys/init.lua.
local adapter_kinds = require "moonring.choices.adapter_kinds"
local attention = require "moonring.native.attention"
local mixing = require "moonring.native.mixing"
local null = require("moonring.native.system").null

return {
  { title = "Model", rows = {
    { "model_name_or_path", "string", null, "the model: a Hugging Face folder, a .gguf file, "
      .. "builtin:smollm2, or a name on a hub (ORG/NAME, docs/models.md)", machine = true },
    { "adapter_name_or_path", "list", null, "adapter folders in PEFT's format, or names on a hub: "
      .. "all but the last are merged into the model, the last goes on learning",
      finetuning = adapter_kinds.all, machine = true },
    { "trust_remote_code", "bool", false, "code from a model folder",
      ignored = "no code of a model folder is ever run" },
    { "model_revision", "string", "main", "of models and adapters that are named on a hub: a "
      .. "branch, a tag or a commit" },
    { "hf_hub_token", "string", null, "the token that is shown to a hub; absent: HF_TOKEN, or the "
      .. "one that `hf auth login` keeps. It is written nowhere", machine = true, resume = "free",
      secret = true },
    { "cache_dir", "string", null, "the folder that downloads from a hub are kept in; absent: "
      .. "HF_HUB_CACHE, or ~/.cache/huggingface/hub", machine = true, resume = "free" },
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
      .. "them, a line \"TOKEN\": \"description\" each; the descriptions are not used",
      machine = true },
    { "rope_scaling", "string", null, "how the rotary embedding is stretched where cutoff_len is "
      .. "beyond the model's context: by ceil(cutoff_len / context)",
      choices = { "linear", "dynamic", "yarn", "llama3" } },
    { "flash_attn", "string", "auto", "the attention kernel",
      ignored = "every kernel here is exact; the fastest that is there is used" },
    { "shift_attn", "bool", false, "stages pt, sft and rm: shifted sparse attention (LongLoRA's "
      .. "S2-Attn) in training: each head sees groups of a quarter of a document, half of the "
      .. "heads groups shifted by half of one (docs/sequence-parallelism.md). Evaluation sees "
      .. "whole documents", stages = { "pt", "sft", "rm" } },
    { "enable_liger_kernel", "bool", false, "fused kernels",
      ignored = "fused kernels are always on" },
    { "use_unsloth", "bool", false, "Unsloth's kernels",
      ignored = "kernels are the runtime's own" },
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
      .. "output_dir", resume = "free", machine = true },
    { "tile_mib", "int", 64,
      "MiB that a tile of rows may take in a block's MLP, where blocks are recomputed, and of "
      .. "logits at a time; 0: all rows at once", least = 0, resume = "free" },
    { "tile_rows", "int", 0, "the fewest rows of such a tile, whatever they take; 0: 512 on the "
      .. "CPU, 8192 on a GPU", least = 0, resume = "free" },
    { "logit_rows", "int", 0, "the fewest rows of logits at a time, whatever they take; 0: one on "
      .. "the CPU, 4096 on a GPU", least = 0, resume = "free" },
    { "residual_dtype", "string", "fp32", "of the residual stream between and in blocks; bf16, "
      .. "with bf16 or pure_bf16: half the memory of what blocks keep, and gradients further from "
      .. "exact (docs/memory.md has figures). Norms compute in fp32 all the same",
        choices = { "fp32", "bf16" } },
    { "cpu_products", "string", "auto", "what makes fp32 products of matrices on the CPU: mkl, "
      .. "onednn (which wants a processor with AVX-512), or as onednn:forward+input_gradient which "
      .. "of them oneDNN makes; auto: what is "
      .. "measured to be faster at the start, or what the checkpoint says that a run goes on "
      .. "from", resume = "free" },
    { "upcast_layernorm", "bool", false, "norms in fp32", ignored = "norms always are" },
    { "upcast_lmhead_output", "bool", false, "logits in fp32", ignored = "logits always are" },
    { "train_from_scratch", "bool", false, "weights made afresh by config.json and seed, as "
      .. "Transformers makes them; no file of weights is read, and none need be there. With "
      .. "finetuning_type: full or freeze" },
    { "moe_aux_loss_coef", "float", null, "weight of the load-balancing loss of a mixture of "
      .. "experts, per_device_train_batch_size examples at a time. pt and sft: the sum over these "
      .. "groups, as LLaMA-Factory has it; dpo and kto: their mean, as TRL's trainers have it "
      .. "(LLaMA-Factory's take the key and leave it out)",
      least = 0, stages = { "pt", "sft", "dpo", "kto" } },
    { "low_cpu_mem_usage", "bool", true, "load without a second copy",
      ignored = "weights are memory-mapped" },
    { "print_param_status", "bool", false, "tell of each weight, before training: its name, dtype "
      .. "and shape, the device, and whether it learns", resume = "free" },
  } },
  { title = "Sequence parallel", resume = "free", rows = {
    { "sequence_parallel_size", "int", 1,
      "ranks that share one sequence; divides the number of ranks", least = 1 },
    { "sequence_parallel_mode", "string", "zigzag-ring",
      "how attention is spread over them; auto: chosen for each micro-batch",
      choices = attention.names() },
    { "sequence_parallel_ulysses_degree", "int", 0,
      "usp: ranks over which heads are split; 0: chosen", least = 0,
      of = { "sequence_parallel_mode", "usp", "auto" } },
    { "sequence_parallel_ring_degree", "int", 0, "usp: ranks over which keys travel; the two "
      .. "degrees make up sequence_parallel_size; 0: chosen", least = 0,
      of = { "sequence_parallel_mode", "usp", "auto" } },
    { "placement", "string", "head_first", "usp: the axis whose ranks are neighbours, on one "
      .. "machine",
      choices = { "head_first", "context_first" },
      of = { "sequence_parallel_mode", "usp", "auto" } },
    { "double_ring_window", "int", 0, "double-ring: ranks of a window, a divisor of "
      .. "sequence_parallel_size; 0: those of a machine, or near its root", least = 0,
      of = { "sequence_parallel_mode", "double-ring", "auto" } },
    { "linear_attention_mode", "string", "auto", "how layers of linear attention (a gated delta "
      .. "rule) are spread over sequence_parallel_size ranks: heads, rows travel and each rank has "
      .. "some heads of all tokens; spans, maps of states travel at once; relay, states travel "
      .. "from rank to rank; auto: the fastest by an estimate, chosen for each micro-batch",
      choices = mixing.names() },
    { "attention_kernels", "string", "auto", "on a GPU in 16 bits: flash, cudnn, or as "
      .. "flash<8192<=cudnn, cuDNN for documents from that length on, and behind that \", "
      .. "cudnn=4096\" for those of that length; auto: what is measured to be faster at the start, "
      .. "or, where a run resumes, what its checkpoint names" },
    { "shuffle_for_sequence_parallel", "bool", true, "shuffle before the cut",
      only = "the order never depends on sp; disable_shuffling: true turns it off" },
    { "micro_batch_tokens", "int", null,
      "tokens that one sequence-parallel group puts through one forward pass; absent: "
      .. "cutoff_len x per_device_train_batch_size", least = 1 },
    { "share_prefixes", "bool", false, "dpo, rm and stages that generate: what a pair's two "
      .. "documents, or a prompt's completions, begin with, and none learns, goes through the "
      .. "model once; the same gradients in less time. An example, or a group, is then as long as "
      .. "that and what is left of all. Not with noise (neftune_noise_alpha, "
      .. "rm's lora_dropout), masks of one's own, or a rope that depends on a document's length" },
    { "auto_find_batch_size", "bool", false, "halve micro_batch_tokens where memory does not hold: "
      .. "before the first step until the run is foretold to fit (memory_check), and where memory "
      .. "runs out in a step, which is made again; batches keep their sizes. The latter where "
      .. "ranks compute alone: sequence_parallel_size 1, zero_stage 0 or 1, or one rank" },
    { "memory_check", "string", "refuse", "where a run is foretold to take more memory than there "
      .. "is: refuse it before training, warn, or do not look (off)",
      choices = { "refuse", "warn", "off" }, machine = true },
    { "memory_limit", "string", null, "memory that a rank may take by memory_check (80GiB, 500MB, "
      .. "...); absent: what its machine has", machine = true },
  } },
}
