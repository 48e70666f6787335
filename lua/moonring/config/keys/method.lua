--- Keys of the training method: stage, loss, trainable weights. Fields of a row: keys/init.lua.
local adapter_kinds = require "moonring.choices.adapter_kinds"
local objectives = require "moonring.native.objectives"
local stages = require "moonring.choices.stages"
local null = require("moonring.native.system").null

local pref_losses = {}
for i, loss in ipairs(objectives.preference_losses()) do pref_losses[i] = loss.name end

-- Stages with a loss on pairs of answers.
local PAIRS = { "stage", "dpo", "online_dpo" }

return {
  { title = "Method", rows = {
    { "stage", "string", "sft", "pre-training, supervised fine-tuning, a reward model, preference "
      .. "pairs (pref_loss), single judged answers (KTO), or rewards of completions that the model "
      .. "generates (grpo, rloo, online_dpo: docs/rewards.md)",
      choices = stages.names(), others = { "ppo" } },
    { "objective", "string", null, "a Lua file that returns a custom objective (count and loss of "
      .. "a step), or a function of (config, model) that creates one, instead of the stage's "
      .. "(docs/losses.md). `stage` still determines which rows are read", own_file = true },
    { "finetuning_type", "string", "lora", "trainable weights: all (full), a low-rank adapter "
      .. "(lora), some layers (freeze), or an orthogonal matrix before each linear module (oft)",
      choices = { "full", "lora", "freeze", "oft" } },
    { "pure_bf16", "bool", false, "bf16 weights and matmuls; wins over bf16, as in "
      .. "LLaMA-Factory" },
    { "bf16", "bool", false, "fp32 weights and states, bf16 matmuls" },
    { "fp64", "bool", false, "fp64 weights and matmuls, for measuring rounding errors" },
    { "fp16", "bool", false, "fp32 weights and states, fp16 matmuls. The loss is scaled before "
      .. "backward, initially by 65536: a step whose gradient overflows is skipped and halves the "
      .. "scale, and 2000 steps without overflow double it (docs/models.md)" },
    { "count", "string", "labels", "the loss's divisor: labels before the shift, as in "
      .. "LLaMA-Factory, or predictions", choices = { "labels", "targets" } },
    { "disable_shuffling", "bool", false, "keep the order of the examples" },
    { "use_dft_loss", "bool", false, "stage sft: each token's loss is weighted by its probability "
      .. "(DFT, arXiv 2508.05629)", stages = { "sft" } },
    { "use_eaft_loss", "bool", false, "stage sft: each token's loss is weighted by (entropy of the "
      .. "20 most probable ids / 3) ^ eaft_alpha (EAFT)", stages = { "sft" } },
    { "eaft_alpha", "float", 1.0, "of use_eaft_loss", of = "use_eaft_loss" },
    { "use_asft_loss", "bool", false, "stage sft: the loss of use_dft_loss plus asft_alpha x "
      .. "KL(reference || policy) of each prediction over the whole vocabulary (ASFT), both "
      .. "divided by the step's count. The reference is ref_model; absent: the initial model "
      .. "(LoRA: with its adapter disabled)", stages = { "sft" } },
    { "asft_alpha", "float", 0.1, "of use_asft_loss", least = 0, of = "use_asft_loss" },
    { "label_smoothing_factor", "float", 0.0, "stages pt and sft: fraction of each target that is "
      .. "spread over the vocabulary. Divided by the step's count like any loss (LLaMA-Factory's "
      .. "grows with accumulation)",
      least = 0, most = 1 },
    { "neftune_noise_alpha", "float", null, "uniform noise of +-alpha / sqrt(tokens x hidden size) "
      .. "on the embeddings in training (NEFTune, arXiv 2310.05914); tokens: those of the document",
      least = 0 },
    { "compute_accuracy", "bool", false, "stages pt and sft: report token accuracy in evaluation; "
      .. "for reward models accuracy is always reported", resume = "free" },
    { "early_stopping_steps", "int", null, "stop after this many consecutive evaluations without a "
      .. "better metric_for_best_model",
      least = 1, resume = "free" },
  } },
  { title = "Preferences", rows = {
    { "pref_loss", "string", "sigmoid", "stage dpo: the loss of a pair; its formula and source are "
      .. "in objectives/preference_losses.cc",
      choices = pref_losses, of = PAIRS },
    { "pref_beta", "float", 0.1, "weight of the log-ratios to the reference", above = 0,
      of = { "stage", "dpo", "kto" } },
    { "pref_ftx", "float", 0.0, "weight of the chosen answer's mean loss, which is added",
      least = 0,
      of = { "stage", "dpo", "kto", "online_dpo" } },
    { "pref_bco_weight", "float", 0.0, "weight of BCO's loss, which is added",
      least = 0, of = PAIRS },
    { "simpo_gamma", "float", 0.5, "SimPO's margin; used as simpo_gamma / pref_beta",
      of = { "pref_loss", "simpo" } },
    { "dpo_label_smoothing", "float", 0.0, "fraction of pairs assumed to be labelled wrongly: "
      .. "sigmoid (cDPO) and robust", least = 0, most = 1, of = PAIRS },
    { "ld_alpha", "float", null, "weight of the tokens beyond the shorter answer's length "
      .. "(LD-DPO); not applied to the reference", least = 0, of = PAIRS },
    { "kto_chosen_weight", "float", 1.0, "stage kto: weight of good answers", least = 0,
      of = { "stage", "kto" } },
    { "kto_rejected_weight", "float", 1.0, "stage kto: weight of bad answers", least = 0,
      of = { "stage", "kto" } },
    { "ref_model", "string", null, "the reference model; absent: the initial model (LoRA: with its "
      .. "adapter disabled). In stage sft for use_asft_loss; in every stage for a custom "
      .. "objective with needs_reference", machine = true },
    { "ref_model_adapters", "list", null, "adapter folders merged into ref_model", machine = true },
    { "precompute_ref_log_probs", "bool", false, "compute the reference's log-probs once and store "
      .. "them in output_dir; then no reference model is kept in memory. For stages dpo and kto, "
      .. "and a custom objective with needs_reference = true", resume = "free" },
  } },
  { title = "LoRA", rows = {
    { "lora_rank", "int", 8, "rank of the low-rank matrices", least = 1,
      of = { "finetuning_type", "lora" } },
    { "lora_alpha", "int", null, "the adapter's output is scaled by lora_alpha / lora_rank; "
      .. "absent: 2 x lora_rank", of = { "finetuning_type", "lora" } },
    { "lora_dropout", "float", 0.0, "dropout of the adapter's input in training; none in stages "
      .. "dpo and kto, as in LLaMA-Factory",
      least = 0, most = 1, of = { "finetuning_type", "lora" } },
    { "lora_target", "list", "all", "names of linear modules that get an adapter; all: all in the "
      .. "blocks. lm_head may be named too (LoRA only, tied to the embedding or not)",
      of = { "finetuning_type", "lora", "oft" } },
    { "additional_target", "list", null, "modules that are fully trained in addition to the "
      .. "adapter, and saved with it: embed_tokens, lm_head, norm",
      finetuning = adapter_kinds.all },
    { "use_rslora", "bool", false, "scale by lora_alpha / sqrt(lora_rank)", finetuning = "lora" },
    { "use_dora", "bool", false, "train a magnitude for each row in addition to the direction "
      .. "(DoRA)",
      finetuning = "lora" },
    { "loraplus_lr_ratio", "float", null, "LoRA+: ratio of the learning rates of B and A",
      above = 0,
      finetuning = "lora" },
    { "create_new_adapter", "bool", false, "merge all of adapter_name_or_path and start a new "
      .. "adapter",
      finetuning = adapter_kinds.all },
    { "pissa_init", "bool", false, "initialize a new adapter with the lora_rank largest singular "
      .. "values of each linear module, and subtract them from its weight (PiSSA, arXiv "
      .. "2404.02948). The base checkpoint stays unchanged: the initial adapter is saved next to "
      .. "the trained one, in pissa_init.safetensors", finetuning = "lora" },
    { "pissa_iter", "int", 16, "pissa_init: iterations of the randomized SVD; -1: a full SVD, "
      .. "exact and slow", least = -1, of = "pissa_init" },
    { "pissa_convert", "bool", false, "after training, also write an equivalent LoRA adapter of "
      .. "rank 2 x lora_rank for the original model to output_dir/pissa_converted",
      finetuning = "lora", of = "pissa_init" },
  } },
  { title = "OFT", rows = {
    { "oft_block_size", "int", 32, "size in features of the blocks on the diagonal of the "
      .. "orthogonal matrix; the nearest divisor of the module's input size is used; 0: derived "
      .. "from oft_rank",
      least = 0, of = { "finetuning_type", "oft" } },
    { "oft_rank", "int", 0, "number of blocks per linear module; requires oft_block_size: 0",
      least = 0,
      of = { "finetuning_type", "oft" } },
    { "oft_target", "list", "all", "names of linear modules; all: as lora_target, which "
      .. "LLaMA-Factory uses for OFT too",
      of = { "finetuning_type", "oft" } },
  } },
  { title = "Quantised base", rows = {
    { "quantization_bit", "int", null, "store the linear modules of the blocks frozen in 4 or 8 "
      .. "bits (QLoRA), except the head, the embedding, norms, routers and stacked experts. "
      .. "Weights are dequantized for each use", finetuning = adapter_kinds.all },
    { "quantization_method", "string", "bnb", "format of quantized weights: bnb, that of "
      .. "bitsandbytes; gguf: without quantization_bit, the quantized blocks of a .gguf file are "
      .. "kept unchanged",
      choices = { "bnb", "gguf" }, others = { "gptq", "awq", "aqlm", "quanto", "eetq", "hqq",
        "mxfp4", "fp8" } },
    { "quantization_type", "string", "nf4", "4 bits: quantiles of the normal distribution (nf4), "
      .. "or floating-point numbers (fp4)", choices = { "nf4", "fp4" } },
    { "double_quantization", "bool", true, "4 bits: the scales of blocks are quantized too, to 8 "
      .. "bits" },
    { "quantization_device_map", "string", null, "where LLaMA-Factory places weights; auto is "
      .. "refused, as it is there in training", choices = { "auto" } },
    { "ref_model_quantization_bit", "int", null, "as quantization_bit, for ref_model",
      stages = { "dpo", "kto" } },
  } },
  { title = "Freeze", rows = {
    { "freeze_trainable_layers", "int", 2, "number of trainable layers: n means the last n, -n the "
      .. "first n",
      of = { "finetuning_type", "freeze" } },
    { "freeze_trainable_modules", "list", "all", "trainable modules of those layers: self_attn, "
      .. "mlp, input_layernorm, ...",
      of = { "finetuning_type", "freeze" } },
    { "freeze_extra_modules", "list", null, "trainable modules outside of the layers: "
      .. "embed_tokens, norm, lm_head", of = { "finetuning_type", "freeze" } },
    { "use_llama_pro", "bool", false, "expanded blocks",
      only = "adding blocks to a model is not supported" },
  } },
}
