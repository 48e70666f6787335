--- The keys of the runs of a check: those of the configuration that matter to its objective, and
-- those that a check sets.
local keys = require "moonring.config.keys"

---@class moonring.check_plan_keys
local plan_keys = {}

-- Files of keys that say how a run updates, saves and logs. A check does none of these.
local UNUSED = { "optimization", "optimizers", "run", "trackers", "foreign" }
local KEPT = { seed = true, data_seed = true }
-- Further keys that a check replaces or that have no effect on an objective. The reference model is
-- the policy before a small random change, so that both are equally small and yet different.
local REPLACED = { "bf16", "pure_bf16", "fp16", "precompute_ref_log_probs", "ref_model",
  "ref_model_adapters", "ref_model_quantization_bit", "quantization_bit", "quantization_method",
  "quantization_type", "double_quantization", "quantization_device_map", "early_stopping_steps",
  "compute_accuracy", "activation_offload", "activation_dir", "residual_dtype", "cpu_products",
  "print_param_status", "auto_find_batch_size", "memory_check", "memory_limit",
  "sequence_parallel_size", "sequence_parallel_ulysses_degree", "sequence_parallel_ring_degree",
  "placement", "double_ring_window", "micro_batch_tokens", "recompute", "pissa_init" }
-- Keys of data sets, which the plan's rows replace.
local OF_DATA = { "dataset", "data_source", "eval_dataset", "dataset_dir", "streaming",
  "buffer_size", "mix_strategy", "interleave_probs", "max_samples", "val_size", "packing",
  "neat_packing", "tokenized_path", "eval_on_each_dataset", "group_by_length", "cutoff_len",
  "length_column_name", "overwrite_cache", "preprocessing_num_workers", "mask_history",
  "preprocessing_batch_size", "dataloader_num_workers", "dataloader_drop_last", "overlong" }

--- Removes keys.
---@param values table<string, any>
---@param names string[]
function plan_keys.without(values, names)
  for _, name in ipairs(names) do values[name] = nil end
end

--- The keys and values of a configuration that matter to its objective.
---@param given table<string, any> as they were given
---@return table<string, any>
function plan_keys.of_objective(given)
  local values = {}
  for name, value in pairs(given) do values[keys.aliases[name] or name] = value end
  for _, file in ipairs(UNUSED) do
    for _, section in ipairs(require("moonring.config.keys." .. file)) do
      for _, row in ipairs(section.rows) do
        if not KEPT[row[1]] then values[row[1]] = nil end
      end
    end
  end
  plan_keys.without(values, REPLACED)
  return values
end

--- Sets keys of all runs of a check. A rank that does not answer fails after ddp_timeout.
---@param values table<string, any>
---@param folder string
function plan_keys.settle(values, folder)
  values.fp64, values.recompute, values.disable_shuffling = true, "none", true
  values.use_cpu, values.memory_check = true, "off"
  values.ddp_timeout, values.max_steps, values.save_strategy = 60, 1, "no"
  values.output_dir, values.overwrite_output_dir = folder .. "/out", true
  values.disable_tqdm, values.report_html = true, false
  values.lr_scheduler_type, values.max_grad_norm = "constant", 0
end

--- Replaces the keys of data sets: all `count` rows of the plan are one step.
---@param values table<string, any>
---@param count integer
function plan_keys.use_rows(values, count)
  plan_keys.without(values, OF_DATA)
  values.cutoff_len, values.streaming = 4096, false
  if values.stage == "pt" then values.packing = false end -- its default is true
  values.global_batch_size = count
end

return plan_keys
