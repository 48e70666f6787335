--- Keys of what is learnt: the stage, its loss, and which weights. What a row says: keys/init.lua.
local adapter_kinds = require "moonring.choices.adapter_kinds"
local objectives = require "moonring.native.objectives"
local stages = require "moonring.choices.stages"
local null = require("moonring.native.system").null

local pref_losses = {}
for i, loss in ipairs(objectives.preference_losses()) do pref_losses[i] = loss.name end

-- Stages whose loss may have a reference.
local COMPARE = { "dpo", "kto", "sft", "grpo", "rloo", "online_dpo" }

-- Stages whose loss is of pairs.
local PAIRS = { "stage", "dpo", "online_dpo" }

return {
  { title = "Method", rows = {
    { "stage", "string", "sft", "pre-training, supervised fine-tuning, a reward model, preferences "
      .. "between pairs (pref_loss), single answers judged (KTO); or rewards for completions that "
      .. "the model itself generates (grpo, rloo, online_dpo: docs/rewards.md)",
      choices = stages.names(), others = { "ppo" } },
    { "objective", "string", null, "a Lua file that returns what a step counts and sums, or a "
      .. "function of (config, model) that makes it, in place of the stage's (docs/scripting.md). "
      .. "`stage` still says which rows are read", own_file = true },
    { "finetuning_type", "string", "lora", "which weights learn: all, a low-rank adapter's, or "
      .. "those of some layers; oft: an orthogonal matrix's before each linear map (OFT)",
      choices = { "full", "lora", "freeze", "oft" } },
    { "pure_bf16", "bool", false, "bf16 weights and matmuls; wins over bf16, as in "
      .. "LLaMA-Factory" },
    { "bf16", "bool", false, "fp32 weights and states, bf16 matmuls" },
    { "fp64", "bool", false, "fp64 weights and matmuls, to measure rounding by" },
    { "fp16", "bool", false, "fp32 weights and states, fp16 matmuls. The loss is scaled before its "
      .. "backward, by 65536 at first: a step whose gradient overflows is left out and halves the "
      .. "scale, 2000 steps without one double it (docs/models.md)" },
    { "tf32", "bool", null, "TF32 matmuls on a GPU", ignored = "fp32 means fp32" },
    { "count", "string", "labels", "what the loss is divided by: labels before the shift, as "
      .. "LLaMA-Factory does, or predictions", choices = { "labels", "targets" } },
    { "disable_shuffling", "bool", false, "take the examples in their order" },
    { "use_dft_loss", "bool", false, "stage sft: each token's loss is weighted by its probability "
      .. "(DFT, arXiv 2508.05629)", stages = { "sft" } },
    { "use_eaft_loss", "bool", false, "stage sft: each token's loss is weighted by (entropy of the "
      .. "20 likeliest ids / 3) ^ eaft_alpha (EAFT)", stages = { "sft" } },
    { "eaft_alpha", "float", 1.0, "of use_eaft_loss", of = "use_eaft_loss" },
    { "use_asft_loss", "bool", false, "stage sft: use_dft_loss's, and asft_alpha x KL(reference || "
      .. "policy) of each prediction over the whole vocabulary (ASFT), both divided by the step's "
      .. "count. The reference is ref_model; absent: the model as it is before training (LoRA: "
      .. "with its adapter off)", stages = { "sft" } },
    { "asft_alpha", "float", 0.1, "of use_asft_loss", least = 0, of = "use_asft_loss" },
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
  } },
  { title = "Preferences", rows = {
    { "pref_loss", "string", "sigmoid", "stage dpo: the loss of a pair; its formula and source are "
      .. "in objectives/preference_losses.cc",
      choices = pref_losses, of = PAIRS },
    { "pref_beta", "float", 0.1, "how much a log-ratio to the reference weighs", above = 0,
      of = { "stage", "dpo", "kto" } },
    { "pref_ftx", "float", 0.0, "weight of the chosen answer's own mean loss, added", least = 0,
      of = { "stage", "dpo", "kto", "online_dpo" } },
    { "pref_bco_weight", "float", 0.0, "weight of BCO's loss beside it", least = 0, of = PAIRS },
    { "simpo_gamma", "float", 0.5, "SimPO's margin; used as simpo_gamma / pref_beta",
      of = { "pref_loss", "simpo" } },
    { "dpo_label_smoothing", "float", 0.0, "part of the pairs that are labelled wrongly: sigmoid "
      .. "(cDPO) and robust", least = 0, most = 1, of = PAIRS },
    { "ld_alpha", "float", null, "weight of the tokens beyond the shorter answer's length "
      .. "(LD-DPO); "
      .. "not in the reference", least = 0, of = PAIRS },
    { "kto_chosen_weight", "float", 1.0, "stage kto: weight of desired answers", least = 0,
      of = { "stage", "kto" } },
    { "kto_rejected_weight", "float", 1.0, "stage kto: weight of undesired ones", least = 0,
      of = { "stage", "kto" } },
    { "ref_model", "string", null, "the reference model; absent: the model as it is before "
      .. "training "
      .. "(LoRA: with its adapter off). In stage sft of use_asft_loss",
      stages = COMPARE, machine = true },
    { "ref_model_adapters", "list", null, "adapter folders merged into ref_model",
      stages = COMPARE, machine = true },
    { "precompute_ref_log_probs", "bool", false, "compute the reference's log-probs once and keep "
      .. "them in output_dir; then no reference model is held", resume = "free",
      stages = { "dpo", "kto" } },
  } },
  { title = "LoRA", rows = {
    { "lora_rank", "int", 8, "columns of the low-rank matrices", least = 1,
      of = { "finetuning_type", "lora" } },
    { "lora_alpha", "int", null, "their product is scaled by lora_alpha / lora_rank; absent: 2 x "
      .. "lora_rank", of = { "finetuning_type", "lora" } },
    { "lora_dropout", "float", 0.0,
      "of the adapter's input while training; none in stages dpo and kto, as in LLaMA-Factory",
      least = 0, most = 1, of = { "finetuning_type", "lora" } },
    { "lora_target", "list", "all", "linear modules by name, or all of the blocks'",
      of = { "finetuning_type", "lora", "oft" } },
    { "additional_target", "list", null, "modules that learn whole beside the adapter and are "
      .. "saved "
      .. "with it: embed_tokens, lm_head, norm", finetuning = adapter_kinds.all },
    { "use_rslora", "bool", false, "scale by lora_alpha / sqrt(lora_rank)", finetuning = "lora" },
    { "use_dora", "bool", false, "learn a magnitude a row beside the direction (DoRA)",
      finetuning = "lora" },
    { "loraplus_lr_ratio", "float", null, "LoRA+: the rate of B over that of A", above = 0,
      finetuning = "lora" },
    { "loraplus_lr_embedding", "float", 1e-6, "LoRA+: the rate of adapted embeddings",
      ignored = "no adapter is put on an embedding" },
    { "create_new_adapter", "bool", false, "merge every adapter_name_or_path and begin a new one",
      finetuning = adapter_kinds.all },
    { "pissa_init", "bool", false, "a new adapter begins with the largest lora_rank singular "
      .. "values of each map, which are taken off the map itself (PiSSA, arXiv 2404.02948). The "
      .. "base is left as it is: what they were at first is saved beside the adapter, in "
      .. "pissa_init.safetensors", finetuning = "lora" },
    { "pissa_iter", "int", 16, "of pissa_init: iterations of the randomised decomposition; -1: the "
      .. "whole one, exact and slow", least = -1, of = "pissa_init" },
    { "pissa_convert", "bool", false, "at the end the same map is written to "
      .. "output_dir/pissa_converted too, as a LoRA adapter of rank 2 x lora_rank over the "
      .. "original model", finetuning = "lora", of = "pissa_init" },
  } },
  { title = "OFT", rows = {
    { "oft_block_size", "int", 32, "the orthogonal matrix of a map is of blocks of so many "
      .. "features, or the nearest number that divides the map's inputs; 0: oft_rank says how many",
      least = 0, of = { "finetuning_type", "oft" } },
    { "oft_rank", "int", 0, "blocks of each map, beside oft_block_size: 0", least = 0,
      of = { "finetuning_type", "oft" } },
    { "oft_target", "list", "all", "linear modules by name, or all of the blocks'; all: as "
      .. "lora_target says, which LLaMA-Factory takes for OFT too",
      of = { "finetuning_type", "oft" } },
    { "module_dropout", "float", 0.0, "of blocks while training",
      ignored = "PEFT's linear layers keep it and never apply it" },
  } },
  { title = "Quantised base", rows = {
    { "quantization_bit", "int", null, "the matrices of linear modules in blocks lie packed in 4 "
      .. "or 8 bits a number, frozen (QLoRA): not the head, the embedding, norms, routers and "
      .. "experts that lie stacked. Each use unpacks them", finetuning = adapter_kinds.all },
    { "quantization_method", "string", "bnb", "the code of packed weights: bnb, bitsandbytes' own; "
      .. "gguf: without quantization_bit, the blocks that a .gguf file holds stay as they are",
      choices = { "bnb", "gguf" }, others = { "gptq", "awq", "aqlm", "quanto", "eetq", "hqq",
        "mxfp4", "fp8" } },
    { "quantization_type", "string", "nf4", "of 4 bits: quantiles of the normal distribution, or "
      .. "numbers with an exponent", choices = { "nf4", "fp4" } },
    { "double_quantization", "bool", true, "of 4 bits: the scales of blocks are packed too, in 8" },
    { "quantization_device_map", "string", null, "where LLaMA-Factory's weights lie; auto is "
      .. "refused, as there in training", choices = { "auto" } },
    { "ref_model_quantization_bit", "int", null, "as quantization_bit, of ref_model",
      stages = { "dpo", "kto" } },
  } },
  { title = "Freeze", rows = {
    { "freeze_trainable_layers", "int", 2, "layers that learn: the last n, or the first -n",
      of = { "finetuning_type", "freeze" } },
    { "freeze_trainable_modules", "list", "all",
      "modules of those layers that learn: self_attn, mlp, input_layernorm, ...",
      of = { "finetuning_type", "freeze" } },
    { "freeze_extra_modules", "list", null, "modules outside the layers that learn too: "
      .. "embed_tokens, norm, lm_head", of = { "finetuning_type", "freeze" } },
    { "use_llama_pro", "bool", false, "expanded blocks", only = "no block is added to a model" },
  } },
}
