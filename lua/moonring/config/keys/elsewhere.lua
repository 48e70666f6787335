--- Keys of LLaMA-Factory and of the Hugging Face Trainer that mean nothing here: media, hubs,
-- loggers, other engines. What a row says: keys/init.lua.
local null = require("moonring.native.system").null

local sections = {}

local function section(title, rows)
  sections[#sections + 1] = { title = title, rows = rows }
end

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
  { "freeze_vision_tower", "bool", true, "weights that stay",
    only = "what sees stays as it is, and the text model learns" },
  { "freeze_multi_modal_projector", "bool", true, "weights that stay",
    only = "what sees stays as it is, and the text model learns" },
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
  { "enable_torch_profiler", "bool", false, "profile the run",
    only = "trace: 3-5 records these steps, and moonring explain says where their time went" },
  { "profiler_output_dir", "string", null, "of enable_torch_profiler",
    ignored = "traces go to output_dir" },
})

section("Not supported yet", {
  { "init_special_tokens", "string", "noise_init", "how rows of the tokens in "
    .. "new_special_tokens_config begin", warned = "it acts with new_special_tokens_config alone" },
  { "generation_max_length", "int", null, "tokens of prompt and answer in evaluations",
    warned = "max_new_tokens bounds the answer" },
  { "length_penalty", "float", 1.0, "of beams", ignored = "it acts with num_beams alone" },
  { "max_length", "int", 1024, "tokens of question and answer",
    only = "max_new_tokens bounds the answer" },
})

return sections
