--- Keys of LLaMA-Factory and of the Hugging Face Trainer that Moonring has no use for: rows as in
--  keys.lua, whose last sections they are.
--   only     what else they could ask for is refused, for the reason given, with what to use
--            instead where there is something
--   ignored  any value is accepted: nothing changes
local system = require "moonring.native.system"
local null = system.null

local sections = {}

local function section(title, rows)
  sections[#sections + 1] = { title = title, rows = rows }
end

--- Rows of keys that mean nothing without another one, which is refused.
local function parts_of(owner, rows)
  for _, row in ipairs(rows) do
    row[4], row.ignored = row[4] or "of " .. owner, "it acts with " .. owner .. " alone"
  end
  return rows
end

local function join(...)
  local all = {}
  for _, rows in ipairs { ... } do
    for _, row in ipairs(rows) do all[#all + 1] = row end
  end
  return all
end

local fewer_states = "finetuning_type lora or freeze has fewer states"
local unquantised = "weights are trained in fp32 or bf16: a quantised checkpoint is dequantised "
  .. "first"

section("Quantisation", join({
  { "quantization_bit", "int", null, "bits of quantised base weights", only = unquantised },
  { "fp8", "bool", false, "matmuls in fp8", only = "use bf16" },
}, parts_of("quantization_bit", {
  { "quantization_method", "string", "bnb" },
  { "quantization_type", "string", "nf4" },
  { "double_quantization", "bool", true },
  { "quantization_device_map", "string", null },
}), parts_of("fp8", {
  { "fp8_backend", "string", "auto" },
  { "fp8_enable_fsdp_float8_all_gather", "bool", false },
}), {
  { "ref_model_quantization_bit", "int", null, "bits of the reference's weights",
    only = unquantised },
  { "reward_model_quantization_bit", "int", null, "bits of the reward model's weights",
    only = unquantised },
  { "export_quantization_bit", "int", null, "bits of exported weights",
    only = "export writes the checkpoint's own dtype; quantise it after" },
}, parts_of("export_quantization_bit", {
  { "export_quantization_dataset", "string", null },
  { "export_quantization_nsamples", "int", 128 },
  { "export_quantization_maxlen", "int", 1024 },
})))

section("Other optimizers", join({
  { "use_galore", "bool", false, "GaLore", only = fewer_states },
  { "use_apollo", "bool", false, "APOLLO", only = fewer_states },
  { "use_badam", "bool", false, "BAdam", only = fewer_states },
  { "use_adam_mini", "bool", false, "Adam-mini", only = "optim: adamw_torch" },
  { "use_muon", "bool", false, "Muon", only = "optim: adamw_torch" },
  { "adafactor", "bool", false, "Adafactor", only = "optim: adamw_torch" },
}, parts_of("use_galore", {
  { "galore_rank", "int", 16 },
  { "galore_update_interval", "int", 200 },
  { "galore_scale", "float", 2.0 },
  { "galore_target", "list", "all" },
  { "galore_proj_type", "string", "std" },
  { "galore_layerwise", "bool", false },
}), parts_of("use_apollo", {
  { "apollo_rank", "int", 16 },
  { "apollo_update_interval", "int", 200 },
  { "apollo_scale", "float", 32.0 },
  { "apollo_target", "list", "all" },
  { "apollo_proj", "string", "random" },
  { "apollo_proj_type", "string", "std" },
  { "apollo_scale_type", "string", "channel" },
  { "apollo_layerwise", "bool", false },
  { "apollo_scale_front", "bool", false },
}), parts_of("use_badam", {
  { "badam_mode", "string", "layer" },
  { "badam_start_block", "int", null },
  { "badam_switch_mode", "string", "ascending" },
  { "badam_switch_interval", "int", 50 },
  { "badam_update_ratio", "float", 0.05 },
  { "badam_mask_mode", "string", "adjacent" },
  { "badam_verbose", "int", 0 },
})))

section("Other methods", join(parts_of("finetuning_type oft", {
  { "module_dropout", "float", 0.0 },
  { "oft_rank", "int", 0 },
  { "oft_block_size", "int", 32 },
  { "oft_target", "list", "all" },
}), parts_of("use_asft_loss", { { "asft_alpha", "float", 0.1 } }), parts_of("stage ppo", {
  { "reward_model", "string", null },
  { "reward_model_adapters", "list", null },
  { "reward_model_type", "string", "lora" },
  { "ppo_buffer_size", "int", 1 },
  { "ppo_epochs", "int", 4 },
  { "ppo_score_norm", "bool", false },
  { "ppo_target", "float", 6.0 },
  { "ppo_whiten_rewards", "bool", false },
}), {
  { "mixture_of_depths", "string", null, "mixture of depths", only = "no model here has it" },
  { "use_mca", "bool", false, "Megatron", only = "sequence_parallel_size spreads a sequence over "
    .. "ranks" },
  { "use_hyper_parallel", "bool", false, "HyperParallel",
    only = "sequence_parallel_size spreads a sequence over ranks" },
  { "use_kt", "bool", false, "KTransformers", only = "experts run in the runtime itself" },
  { "use_v1_kernels", "bool", false, "kernels of LLaMA-Factory's next version",
    ignored = "every kernel here is exact; the fastest that is there is used" },
}, parts_of("use_hyper_parallel", { { "hyper_parallel_args", "any", null } }), parts_of("use_kt", {
  { "kt_weight_path", "string", null },
  { "kt_expert_checkpoint_path", "string", null },
  { "kt_use_lora_experts", "bool", null },
  { "kt_lora_expert_num", "int", null },
  { "kt_lora_expert_intermediate_size", "int", null },
})))

local no_media = "models here read text alone"
section("Images, video and sound", {
  { "media_dir", "string", null, "the folder of images", ignored = no_media },
  { "image_max_pixels", "int", 589824, "of an image", ignored = no_media },
  { "image_min_pixels", "int", 1024, "of an image", ignored = no_media },
  { "image_do_pan_and_scan", "bool", false, "of an image", ignored = no_media },
  { "crop_to_patches", "bool", false, "of an image", ignored = no_media },
  { "video_max_pixels", "int", 65536, "of a frame", ignored = no_media },
  { "video_min_pixels", "int", 256, "of a frame", ignored = no_media },
  { "video_fps", "float", 2.0, "frames a second", ignored = no_media },
  { "video_maxlen", "int", 128, "frames of a video", ignored = no_media },
  { "use_audio_in_video", "bool", false, "a video's sound", ignored = no_media },
  { "audio_sampling_rate", "int", 16000, "of sound", ignored = no_media },
  { "freeze_vision_tower", "bool", true, "weights that stay", ignored = no_media },
  { "freeze_multi_modal_projector", "bool", true, "weights that stay", ignored = no_media },
  { "freeze_language_model", "bool", false, "weights that stay",
    only = "finetuning_type freeze says which layers learn" },
})

local no_hub = "nothing is sent to or fetched from a hub; download first"
section("Hubs and loggers", {
  { "model_revision", "string", "main", "of a model on a hub", ignored = "nothing is downloaded" },
  { "hf_hub_token", "string", null, "for a hub", ignored = "nothing is downloaded" },
  { "ms_hub_token", "string", null, "for a hub", ignored = "nothing is downloaded" },
  { "om_hub_token", "string", null, "for a hub", ignored = "nothing is downloaded" },
  { "push_to_hub", "bool", false, "upload the model", only = no_hub },
  { "hub_model_id", "string", null, "where to", ignored = "it acts with push_to_hub alone" },
  { "hub_strategy", "string", "every_save", "when", ignored = "it acts with push_to_hub alone" },
  { "hub_token", "string", null, "for a hub", ignored = "it acts with push_to_hub alone" },
  { "hub_private_repo", "bool", null, "private or not",
    ignored = "it acts with push_to_hub alone" },
  { "hub_always_push", "bool", false, "when", ignored = "it acts with push_to_hub alone" },
  { "hub_revision", "string", null, "which branch", ignored = "it acts with push_to_hub alone" },
  { "export_hub_model_id", "string", null, "upload the exported model", only = no_hub },
  { "use_swanlab", "bool", false, "SwanLab's logger", warned = "trainer_log.jsonl has it all" },
  { "swanlab_project", "string", "llamafactory", "of use_swanlab",
    ignored = "there is no such logger" },
  { "swanlab_workspace", "string", null, "of use_swanlab", ignored = "there is no such logger" },
  { "swanlab_run_name", "string", null, "of use_swanlab", ignored = "there is no such logger" },
  { "swanlab_mode", "string", "cloud", "of use_swanlab", ignored = "there is no such logger" },
  { "swanlab_api_key", "string", null, "of use_swanlab", ignored = "there is no such logger" },
  { "swanlab_logdir", "string", null, "of use_swanlab", ignored = "there is no such logger" },
  { "swanlab_lark_webhook_url", "string", null, "of use_swanlab",
    ignored = "there is no such logger" },
  { "swanlab_lark_secret", "string", null, "of use_swanlab", ignored = "there is no such logger" },
  { "project", "string", "huggingface", "of a logger", ignored = "trainer_log.jsonl has it all" },
  { "trackio_space_id", "string", "trackio", "of a logger",
    ignored = "trainer_log.jsonl has it all" },
})

section("Inference elsewhere", {
  { "infer_backend", "string", "huggingface", "which engine answers", ignored = "there is one" },
  { "offload_folder", "string", "offload", "where weights are put",
    ignored = "weights are memory-mapped" },
  { "use_kv_cache", "bool", true, "keep keys while answering", ignored = "they are kept" },
  { "vllm_maxlen", "int", 4096, "of vLLM", ignored = "there is one engine" },
  { "vllm_gpu_util", "float", 0.7, "of vLLM", ignored = "there is one engine" },
  { "vllm_enforce_eager", "bool", false, "of vLLM", ignored = "there is one engine" },
  { "vllm_max_lora_rank", "int", 32, "of vLLM", ignored = "there is one engine" },
  { "vllm_config", "any", null, "of vLLM", ignored = "there is one engine" },
  { "sglang_maxlen", "int", 4096, "of SGLang", ignored = "there is one engine" },
  { "sglang_mem_fraction", "float", 0.7, "of SGLang", ignored = "there is one engine" },
  { "sglang_tp_size", "int", -1, "of SGLang", ignored = "there is one engine" },
  { "sglang_config", "any", null, "of SGLang", ignored = "there is one engine" },
  { "sglang_lora_backend", "string", "triton", "of SGLang", ignored = "there is one engine" },
})

local launched = "moonring -n, torchrun and Slurm start the ranks"
section("The Hugging Face Trainer's own", {
  { "auto_find_batch_size", "bool", false, "smaller batches where memory ends",
    only = "micro_batch_tokens bounds what a forward takes, and changes no number" },
  { "torch_compile", "bool", false, "compiled models", ignored = "the cores are compiled" },
  { "torch_compile_backend", "string", null, "of torch_compile",
    ignored = "the cores are compiled" },
  { "torch_compile_mode", "string", null, "of torch_compile", ignored = "the cores are compiled" },
  { "use_liger_kernel", "bool", false, "fused kernels", ignored = "fused kernels are always on" },
  { "liger_kernel_config", "any", null, "fused kernels", ignored = "fused kernels are always on" },
  { "gradient_checkpointing_kwargs", "any", null, "the kind of recompute",
    ignored = "recompute says it" },
  { "optim_target_modules", "any", null, "of GaLore and the like", only = fewer_states },
  { "accelerator_config", "any", null, "of accelerate", ignored = "there is one runtime" },
  { "parallelism_config", "any", null, "of accelerate",
    only = "sequence_parallel_size spreads a sequence over ranks" },
  { "eval_delay", "float", 0, "steps or epochs before the first evaluation",
    only = "eval_strategy says when" },
  { "eval_accumulation_steps", "int", null, "of predictions", ignored = "none are kept" },
  { "prediction_loss_only", "bool", false, "of evaluation", ignored = "none are kept" },
  { "batch_eval_metrics", "bool", false, "of evaluation", ignored = "they always are" },
  { "bf16_full_eval", "bool", false, "evaluate in bf16",
    only = "an evaluation has the training's precision" },
  { "fp16_full_eval", "bool", false, "evaluate in fp16",
    only = "an evaluation has the training's precision" },
  { "dataloader_prefetch_factor", "int", null, "batches prepared ahead",
    ignored = "steps are prepared ahead" },
  { "dataloader_persistent_workers", "bool", false, "of data loading",
    ignored = "one thread prepares steps ahead" },
  { "disable_tqdm", "bool", null, "no progress bar", ignored = "a line a logging step" },
  { "log_level", "string", "passive", "of messages", ignored = "" },
  { "log_level_replica", "string", "warning", "of messages", ignored = "" },
  { "log_on_each_node", "bool", true, "of messages", ignored = "rank 0 logs" },
  { "logging_nan_inf_filter", "bool", true, "leave NaN out of the log",
    ignored = "a loss that is not finite ends the run" },
  { "include_tokens_per_second", "bool", false, "token rate", ignored = "the log always has it" },
  { "save_on_each_node", "bool", false, "of checkpoints", ignored = "rank 0 saves" },
  { "skip_memory_metrics", "bool", true, "of memory", ignored = "" },
  { "torch_empty_cache_steps", "int", null, "of memory", ignored = "" },
  { "label_names", "list", null, "of the model", ignored = "" },
  { "length_column_name", "string", "length", "of group_by_length", ignored = "" },
  { "no_cuda", "bool", false, "no GPU", only = "use_cpu says it" },
  { "local_rank", "int", -1, "of this process", ignored = launched },
  { "ddp_backend", "string", null, "how ranks talk", ignored = "Gloo on CPU, NCCL on GPUs" },
  { "ddp_find_unused_parameters", "bool", null, "of DDP",
    ignored = "gradients are summed once a step" },
  { "ddp_bucket_cap_mb", "int", null, "of DDP", ignored = "gradients are summed once a step" },
  { "ddp_broadcast_buffers", "bool", null, "of DDP", ignored = "gradients are summed once a step" },
  { "ray_num_workers", "int", 1, "of Ray", ignored = launched },
  { "ray_init_kwargs", "any", null, "of Ray", ignored = launched },
  { "ray_scope", "string", "last", "of Ray", ignored = launched },
  { "master_addr", "string", null, "of Ray", ignored = launched },
  { "master_port", "string", null, "of Ray", ignored = launched },
  { "half_precision_backend", "string", "auto", "of fp16", ignored = "" },
  { "fp16_opt_level", "string", "O1", "of fp16", ignored = "" },
  { "enable_torch_profiler", "bool", false, "profile the run", only = "not supported yet" },
  { "profiler_output_dir", "string", null, "of enable_torch_profiler", ignored = "" },
})

section("Not supported yet", {
  { "init_special_tokens", "string", "noise_init", "how rows of the tokens in "
    .. "new_special_tokens_config begin", warned = "it acts with new_special_tokens_config alone" },
  { "eval_num_beams", "int", null, "beams of predict_with_generate",
    ignored = "it acts with predict_with_generate alone" },
  { "generation_max_length", "int", null, "tokens of predict_with_generate",
    ignored = "it acts with predict_with_generate alone" },
  { "generation_num_beams", "int", null, "beams of predict_with_generate",
    ignored = "it acts with predict_with_generate alone" },
  { "length_penalty", "float", 1.0, "of beams", ignored = "it acts with num_beams alone" },
  { "max_length", "int", 1024, "tokens of question and answer",
    only = "max_new_tokens bounds the answer" },
  { "skip_special_tokens", "bool", true, "leave special tokens out of answers",
    ignored = "they always are" },
})

return sections
