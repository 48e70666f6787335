--- Lists the DeepSpeed settings that deepspeed.lua does not convert to keys: `refused`, which would
-- change results, and `idle`, which have no effect. Names and defaults are from DeepSpeed's page
-- "Configuration JSON" and runtime/zero/config.py.

---@class moonring.deepspeed_settings
---@field refused table[] { path, values that are accepted because they change nothing, reason }
---@field idle moonring.IdleSettings[]
local deepspeed_settings = {}

local off = { [false] = true }
local AUTOCAST = "set bf16: true or fp16: true instead"
local BY_KEYS = "use keys of the configuration for what is trained, on which data, and how"

deepspeed_settings.refused = {
  { "zero_optimization.zero_hpz_partition_size", { [0] = true, [1] = true },
    "a second copy of the weights in each node is not supported; zero_group: node shards all "
    .. "states within a node" },
  { "zero_optimization.zero_quantized_weights", off, "weights are sent in the dtype of matmuls" },
  { "zero_optimization.zero_quantized_nontrainable_weights", off,
    "weights are sent in the dtype of matmuls; quantization_bit quantizes a frozen base" },
  { "zero_optimization.zero_quantized_gradients", off, "gradients are sent in fp32" },
  { "zero_optimization.cpu_offload", off, "use offload_optimizer: {\"device\": \"cpu\"} instead" },
  { "tensor_parallel.autotp_size", { [0] = true, [1] = true }, "tensor parallelism is not "
    .. "supported; use sequence_parallel_size and zero_stage" },
  { "optimizer.params.adam_w_mode", { [true] = true }, "weight decay is decoupled" },
  { "scheduler.type", {}, "lr_scheduler_type sets the schedule; leave scheduler out" },
  { "torch_autocast.enabled", off, AUTOCAST },
  { "amp.enabled", off, AUTOCAST },
  { "curriculum_learning.enabled", off, BY_KEYS },
  { "data_efficiency.enabled", off, BY_KEYS },
  { "progressive_layer_drop.enabled", off, BY_KEYS },
  { "quantize_training.enabled", off, BY_KEYS },
  { "compression_training", {}, BY_KEYS },
  { "sparse_attention", {}, "sequence_parallel_mode and shift_attn determine the attention" },
  { "elasticity.enabled", off, "batches are of per_device_train_batch_size" },
  { "autotuning.enabled", off, "moonring plan predicts what fits; auto_find_batch_size tries" },
}

deepspeed_settings.idle = {
  { why = "blocks are gathered one ahead and freed after use, gradients are summed once per step; "
    .. "results are the same", defaults = {
      ["zero_optimization.allgather_partitions"] = true,
      ["zero_optimization.allgather_bucket_size"] = 5e8,
      ["zero_optimization.overlap_comm"] = false,
      ["zero_optimization.reduce_scatter"] = true,
      ["zero_optimization.reduce_bucket_size"] = 5e8,
      ["zero_optimization.contiguous_gradients"] = true,
      ["zero_optimization.round_robin_gradients"] = false,
      ["zero_optimization.use_multi_rank_bucket_allreduce"] = true,
      ["zero_optimization.sub_group_size"] = 1e9,
      ["zero_optimization.stage3_prefetch_bucket_size"] = 5e7,
      ["zero_optimization.stage3_param_persistence_threshold"] = 1e5,
      ["zero_optimization.stage3_model_persistence_threshold"] = 9223372036854775807,
      ["zero_optimization.stage3_max_live_parameters"] = 1e9,
      ["zero_optimization.stage3_max_reuse_distance"] = 1e9,
      ["zero_optimization.stage3_module_granularity_threshold"] = 0,
      ["zero_optimization.stage3_allgather_sequential"] = false,
      ["zero_optimization.stage3_use_all_reduce_for_fetch_params"] = false,
      ["zero_optimization.memory_efficient_linear"] = true,
      ["zero_optimization.ignore_unused_parameters"] = true,
      ["zero_optimization.legacy_stage1"] = false,
      ["zero_optimization.mics_hierarchical_params_gather"] = false,
      prescale_gradients = false, gradient_predivide_factor = 1, sparse_gradients = false,
      communication_data_type = "fp32", seq_parallel_communication_data_type = "fp32",
      disable_allgather = false,
    } },
  { why = "offloaded states use Moonring's own buffers", defaults = {
      ["zero_optimization.offload_optimizer.pin_memory"] = false,
      ["zero_optimization.offload_optimizer.buffer_count"] = 4,
      ["zero_optimization.offload_optimizer.fast_init"] = false,
      ["zero_optimization.offload_optimizer.pipeline_read"] = false,
      ["zero_optimization.offload_optimizer.pipeline_write"] = false,
      ["zero_optimization.offload_optimizer.ratio"] = 1,
      ["zero_optimization.offload_param.pin_memory"] = false,
      ["zero_optimization.offload_param.buffer_count"] = 5,
      ["zero_optimization.offload_param.buffer_size"] = 1e8,
      ["zero_optimization.offload_param.max_in_cpu"] = 1e9,
      ["zero_optimization.offload_param.nvme_path"] = "",
      zero_allow_untested_optimizer = false, zero_force_ds_cpu_optimizer = true,
      ["optimizer.params.torch_adam"] = false,
    }, sections = { "aio" } },
  { why = "saved models are always whole, and checkpoints have Moonring's format", defaults = {
      ["zero_optimization.stage3_gather_16bit_weights_on_model_save"] = true,
      ["zero_optimization.stage3_gather_fp16_weights_on_model_save"] = true,
      ["zero_optimization.elastic_checkpoint"] = false,
      ["zero_optimization.load_from_fp32_weights"] = true,
    }, sections = { "checkpoint", "nebula", "use_node_local_storage",
      "load_universal_checkpoint" } },
  { why = "the loss scale is Moonring's own, and only with fp16", defaults = {
      ["fp16.loss_scale_window"] = 1000, ["fp16.initial_scale_power"] = 16, ["fp16.hysteresis"] = 2,
      ["fp16.min_loss_scale"] = 1, ["fp16.consecutive_hysteresis"] = false,
      ["fp16.auto_cast"] = false, ["fp16.fp16_master_weights_and_grads"] = false,
      ["bf16.immediate_grad_update"] = true, ["bf16.bf16_master_weights_and_grads"] = false,
      ["bf16.check_grad_overflow"] = false, ["data_types.grad_accum_dtype"] = "fp32",
    } },
  { why = "set recompute instead", sections = { "activation_checkpointing" } },
  { why = "see trainer_log.jsonl and memory_report", defaults = { steps_per_print = 10,
      wall_clock_breakdown = false, dump_state = false, memory_breakdown = false,
      ["comms_config.verbose"] = false, ["_comment"] = "" },
    sections = { "flops_profiler", "tensorboard", "wandb", "comet", "csv_monitor", "comms_logger",
      "monitor_config" } },
  { why = "the cores are compiled", sections = { "compile" } },
  { why = "its feature is off", sections = { "tensor_parallel", "torch_autocast", "amp",
      "curriculum_learning", "data_efficiency", "progressive_layer_drop", "quantize_training",
      "elasticity", "autotuning", "hybrid_engine", "eigenvalue" } },
}

return deepspeed_settings
