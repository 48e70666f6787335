--- Keys of LLaMA-Factory and of the Hugging Face Trainer with little or no effect in Moonring:
-- media, hubs, loggers, other engines. Fields of a row: keys/init.lua.
local null = require("moonring.native.system").null

local sections = {}

local function section(title, rows)
  sections[#sections + 1] = { title = title, rows = rows }
end

local no_media = "models read only text"
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
  { "freeze_vision_tower", "bool", true, "frozen weights",
    only = "the vision part is frozen, the text model is trained" },
  { "freeze_multi_modal_projector", "bool", true, "frozen weights",
    only = "the vision part is frozen, the text model is trained" },
  { "freeze_language_model", "bool", false, "frozen weights",
    only = "finetuning_type freeze selects the trainable layers" },
})

local no_hub = "nothing is sent to a hub: `hf upload ORG/NAME output_dir` does it after the run"
local of_hub = "it acts with push_to_hub alone"

-- Completes rows of keys that only configure the key `owner`. If `owner` is set without effect,
-- too, only its note is shown.
local function parts_of(owner, why, rows)
  for _, row in ipairs(rows) do
    row[4], row.ignored, row.part_of = row[4] or "of " .. owner, why, owner
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

section("Hubs and loggers", join({
  { "ms_hub_token", "string", null, "for a hub", ignored = "nothing is downloaded from that hub",
    secret = true },
  { "om_hub_token", "string", null, "for a hub", ignored = "nothing is downloaded from that hub",
    secret = true },
  { "push_to_hub", "bool", false, "upload the model", ignored = no_hub },
}, parts_of("push_to_hub", of_hub, {
  { "hub_model_id", "string", null, "target repository" },
  { "hub_strategy", "string", "every_save", "when to upload" },
  { "hub_token", "string", null, "for a hub", secret = true },
  { "hub_private_repo", "bool", null, "whether the repository is private" },
  { "hub_always_push", "bool", false, "when to upload" },
  { "hub_revision", "string", null, "target branch" },
  { "push_to_hub_model_id", "string", null, "target repository" },
  { "push_to_hub_organization", "string", null, "target organization" },
  { "push_to_hub_token", "string", null, "for a hub", secret = true },
}), {
  { "export_hub_model_id", "string", null, "upload the exported model",
    ignored = "nothing is sent to a hub: `hf upload ORG/NAME export_dir` does it afterwards" },
  { "use_swanlab", "bool", false, "SwanLab's logger",
    ignored = "nothing is sent to SwanLab: trainer_log.jsonl has every line, and report_to selects "
      .. "other targets (docs/watching.md)" },
}, parts_of("use_swanlab", "there is no such logger", {
  { "swanlab_project", "string", "llamafactory" },
  { "swanlab_workspace", "string", null },
  { "swanlab_run_name", "string", null },
  { "swanlab_mode", "string", "cloud" },
  { "swanlab_api_key", "string", null, nil, secret = true },
  { "swanlab_logdir", "string", null },
  { "swanlab_lark_webhook_url", "string", null, nil, secret = true },
  { "swanlab_lark_secret", "string", null, nil, secret = true },
}), {
  { "project", "string", "huggingface", "of a logger", ignored = "trainer_log.jsonl has it all" },
  { "trackio_space_id", "string", "trackio", "of a logger",
    ignored = "trainer_log.jsonl has it all" },
}))

section("Inference elsewhere", {
  { "infer_backend", "string", "huggingface", "inference engine", ignored = "there is only one" },
  { "offload_folder", "string", "offload", "folder for offloaded weights",
    ignored = "weights are memory-mapped" },
  { "use_kv_cache", "bool", true, "cache keys and values in generation",
    ignored = "they are always cached" },
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
local profiled = "it acts only with enable_torch_profiler"
local no_python = "evaluations compute Moonring's built-in metrics"
section("Other keys of the Hugging Face Trainer", {
  { "torch_compile", "bool", false, "compiled models", ignored = "the cores are compiled" },
  { "torch_compile_backend", "string", null, "of torch_compile",
    ignored = "the cores are compiled" },
  { "torch_compile_mode", "string", null, "of torch_compile", ignored = "the cores are compiled" },
  { "use_liger_kernel", "bool", false, "fused kernels", ignored = "fused kernels are always on" },
  { "liger_kernel_config", "any", null, "fused kernels", ignored = "fused kernels are always on" },
  { "gradient_checkpointing_kwargs", "any", null, "the kind of recompute",
    ignored = "set recompute instead" },
  { "optim_target_modules", "any", null, "of GaLore and the like",
    only = "use_galore and use_apollo have galore_target and apollo_target" },
  { "accelerator_config", "any", null, "accelerate's settings, a JSON file or a map: settings that "
    .. "would change results are refused by name; those without effect are listed once",
    machine = true },
  { "parallelism_config", "any", null, "of accelerate",
    only = "sequence_parallel_size spreads a sequence over ranks" },
  { "eval_accumulation_steps", "int", null, "of predictions",
    ignored = "predictions are not kept" },
  { "prediction_loss_only", "bool", false, "of evaluation", ignored = "predictions are not kept" },
  { "batch_eval_metrics", "bool", false, "of evaluation",
    ignored = "metrics are always accumulated batch by batch" },
  { "bf16_full_eval", "bool", false, "evaluate in bf16",
    only = "evaluation uses the precision of training" },
  { "fp16_full_eval", "bool", false, "evaluate in fp16",
    only = "evaluation uses the precision of training" },
  { "dataloader_prefetch_factor", "int", null, "batches prepared ahead",
    ignored = "steps are prepared ahead" },
  { "dataloader_persistent_workers", "bool", false, "of data loading",
    ignored = "one thread prepares steps ahead" },
  { "log_level", "string", "passive", "of messages", ignored = "there is one level" },
  { "log_level_replica", "string", "warning", "of messages of other ranks",
    ignored = "only rank 0 logs" },
  { "log_on_each_node", "bool", true, "of messages", ignored = "only rank 0 logs" },
  { "logging_nan_inf_filter", "bool", true, "omit NaN from the log",
    ignored = "a loss that is not finite ends the run" },
  { "skip_memory_metrics", "bool", true, "of memory", ignored = "see memory_report" },
  { "torch_empty_cache_steps", "int", null, "of memory",
    ignored = "free memory is reused, and released between the phases of a run" },
  { "label_names", "list", null, "of the model", ignored = "the stage determines the labels" },
  { "no_cuda", "bool", false, "an older name of use_cpu", machine = true, resume = "free" },
  { "local_rank", "int", -1, "of this process", ignored = launched },
  { "ddp_backend", "string", null, "communication library of ranks",
    ignored = "Gloo on CPU, NCCL on GPUs" },
  { "ddp_find_unused_parameters", "bool", null, "of DDP",
    ignored = "gradients are summed once a step" },
  { "ddp_bucket_cap_mb", "int", null, "of DDP", ignored = "gradients are summed once a step" },
  { "ddp_broadcast_buffers", "bool", null, "of DDP", ignored = "gradients are summed once a step" },
  { "ray_num_workers", "int", 1, "of Ray", ignored = launched },
  { "ray_init_kwargs", "any", null, "of Ray", ignored = launched },
  { "ray_scope", "string", "last", "of Ray", ignored = launched },
  { "master_addr", "string", null, "of Ray", ignored = launched },
  { "master_port", "string", null, "of Ray", ignored = launched },
  { "half_precision_backend", "string", "auto", "of fp16", ignored = "there is only one" },
  { "fp16_backend", "string", "auto", "of fp16", ignored = "there is only one" },
  { "fp16_opt_level", "string", "O1", "of fp16 by Apex", ignored = "there is no Apex" },
  { "restore_callback_states_from_checkpoint", "bool", false, "of a resumed run",
    ignored = "every component of a run resumes with its state" },
  { "use_mps_device", "bool", false, "Apple's GPUs",
    only = "only CPUs and CUDA GPUs are supported" },
  { "tpu_num_cores", "int", null, "of TPUs", ignored = launched },
  { "tpu_metrics_debug", "bool", false, "of TPUs", ignored = "TPUs are not supported" },
  { "mp_parameters", "string", "", "of SageMaker", ignored = launched },
  { "debug", "list", null, "problems to look for",
    ignored = "a loss that is not finite is traced to its layer anyway" },
  { "jit_mode_eval", "bool", false, "compiled evaluations", ignored = "the cores are compiled" },
  { "torchdynamo", "string", null, "of torch_compile", ignored = "the cores are compiled" },
  { "past_index", "int", -1, "of models that keep states between batches",
    only = "no supported model does" },
  { "use_legacy_prediction_loop", "bool", false, "of evaluation", ignored = "there is one loop" },
  { "include_inputs_for_metrics", "bool", false, "of metrics in Python", ignored = no_python },
  { "include_for_metrics", "list", null, "of metrics in Python", ignored = no_python },
  { "eval_do_concat_batches", "bool", true, "of metrics in Python", ignored = no_python },
  { "eval_use_gather_object", "bool", false, "of metrics in Python", ignored = no_python },
  { "sortish_sampler", "bool", false, "an order by length",
    only = "group_by_length orders by length" },
  { "generation_config", "any", null, "how answers are generated",
    only = "use the keys under Generation" },
  { "enable_torch_profiler", "bool", false, "profile the run",
    ignored = "trace: 3-5 records these steps, and moonring explain summarizes their time" },
  { "profiler_output_dir", "string", null, "of enable_torch_profiler", ignored = profiled },
  { "profiler_wait_steps", "int", 1, "of enable_torch_profiler", ignored = profiled },
  { "profiler_warmup_steps", "int", 1, "of enable_torch_profiler", ignored = profiled },
  { "profiler_active_steps", "int", 1, "of enable_torch_profiler", ignored = profiled },
  { "profiler_repeat", "int", 1, "of enable_torch_profiler", ignored = profiled },
  { "profiler_record_shapes", "bool", true, "of enable_torch_profiler", ignored = profiled },
  { "profiler_profile_memory", "bool", true, "of enable_torch_profiler", ignored = profiled },
  { "profiler_with_stack", "bool", true, "of enable_torch_profiler", ignored = profiled },
  { "profile_modules", "string", null, "of enable_torch_profiler", ignored = profiled },
})

section("Answers and tokens", {
  { "init_special_tokens", "string", "noise_init", "initialization of embedding rows for the "
    .. "tokens in new_special_tokens_config: as with resize_vocab", choices = { "noise_init" },
    others = { "desc_init", "desc_init_w_noise" } },
  { "adapter_folder", "string", null, "a folder inside the adapter's",
    only = "set adapter_name_or_path to the adapter's own folder" },
  { "generation_max_length", "int", null, "tokens of prompt and answer in evaluations",
    ignored = "max_new_tokens bounds the answer" },
  { "length_penalty", "float", 1.0, "of beams", ignored = "it acts with num_beams alone" },
  { "max_length", "int", 1024, "tokens of question and answer",
    ignored = "max_new_tokens bounds the answer, as in LLaMA-Factory if both are set" },
})

return sections
