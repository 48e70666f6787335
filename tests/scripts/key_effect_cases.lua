-- How each key shows its effect, for key_effects.lua: of[key] = { value, context }, both optional.
--   value    a value other than the default; absent: the other truth value or choice, or the
--            default plus 1
--   context  keys and values of both runs, beside those of the key's row (stages, of, finetuning)
--   way      "train" (default), "plan" or "export"
--   refused  words of the refusal that is the effect
--   test     the source, beside this file, of the test of an effect that takes several machines or
--            a program
--   fails    whether either run may be refused: the refusals are compared like the rest
local system = require "moonring.native.system"

local EVAL = "val_size=3 eval_strategy=steps eval_steps=1"
local BEST = EVAL .. " save_strategy=best"
local SAVE = "save_strategy=steps save_steps=1"
local ANSWERS = "val_size=2 do_train=false do_predict=true predict_with_generate=true "
  .. "max_new_tokens=4"
local HUB = "model_name_or_path=someone/something"
local QLORA = "finetuning_type=lora quantization_bit=4"
local EXPERTS = "model_name_or_path=experts train_from_scratch=true"
local RANKS = "sequence_parallel_size=8"
local CLIPPED = "num_iterations=2 learning_rate=0.1"
local ROLLOUTS = "reward_funcs=rewards.lua num_generations=2 per_device_train_batch_size=4 "
  .. "gradient_accumulation_steps=1 max_prompt_length=32 max_completion_length=6 beta=0.1"

local cases = {}

cases.base = "max_steps=2 lr_scheduler_type=linear report_html=false save_strategy=no "
  .. "overwrite_output_dir=true"

cases.stages = { dpo = "dataset=pairs", rm = "dataset=pairs", kto = "dataset=judged",
  grpo = ROLLOUTS, rloo = ROLLOUTS, online_dpo = ROLLOUTS }

cases.of = {
  -- Model
  disable_gradient_checkpointing = { "true", way = "plan" },
  recompute = { "selective", way = "plan" },
  model_name_or_path = { "experts", "train_from_scratch=true" },
  adapter_name_or_path = { "adapter" },
  model_revision = { "other", HUB, fails = true },
  hf_hub_token = { "other", HUB, fails = true },
  cache_dir = { "other", HUB, fails = true },
  resize_vocab = { "false", "model_name_or_path=short train_from_scratch=true",
    refused = "resize_vocab: true" },
  add_tokens = { "moon" },
  add_special_tokens = { "moon" },
  new_special_tokens_config = { "tokens.yaml" },
  activation_dir = { ".", "activation_offload=disk" },
  tile_mib = { "1" },
  tile_rows = { "16" },
  logit_rows = { "16" },
  residual_dtype = { nil, "bf16=true" },
  cpu_products = { "mkl" },
  moe_aux_loss_coef = { "2", EXPERTS },
  -- Sequence parallel
  sequence_parallel_size = { "2", way = "plan" },
  sequence_parallel_mode = { "ulysses", RANKS, way = "plan" },
  sequence_parallel_ulysses_degree = { "4", RANKS, way = "plan" },
  sequence_parallel_ring_degree = { "4", RANKS, way = "plan" },
  placement = { nil, RANKS, way = "plan" },
  double_ring_window = { "2", RANKS, way = "plan" },
  linear_attention_mode = { "heads", RANKS .. " model_name_or_path=mixed", way = "plan" },
  attention_kernels = { "flash" },
  micro_batch_tokens = { "300" },
  auto_find_batch_size = { "true", SAVE },
  share_prefixes = { "true", "stage=dpo" },
  memory_check = { "warn", "memory_limit=8MiB", fails = true },
  memory_limit = { "8MiB", "memory_check=warn" },
  -- Data
  preprocessing_num_workers = { "1" },
  dataset = { "turns" },
  data_source = { "source.lua", "dataset=null max_samples=null", fails = true },
  eval_dataset = { "turns", "eval_strategy=steps eval_steps=1", fails = true },
  dataset_dir = { "other_data" },
  template = { "chatml" },
  cutoff_len = { "64" },
  mask_history = { "true", "dataset=turns" },
  buffer_size = { "2" },
  mix_strategy = { "interleave_under", "dataset=rows,turns" },
  interleave_probs = { "0.9,0.1", "dataset=rows,turns" },
  max_samples = { "2" },
  val_size = { "3" },
  preprocessing_batch_size = { "3", "packing=true" },
  dataloader_num_workers = { "2" },
  dataloader_drop_last = { "true",
    "per_device_train_batch_size=3 max_steps=-1 num_train_epochs=1" },
  overwrite_cache = { "true", "stage=dpo precompute_ref_log_probs=true output_dir=compared" },
  tokenized_path = { "prepared" },
  default_system = { "Be_kind." },
  tool_format = { "qwen" },
  enable_thinking = { "false", "template=qwen3" },
  preserve_thinking = { "true", "template=qwen3 dataset=thoughts mask_history=true" },
  eval_on_each_dataset = { "true", "eval_dataset=rows,turns eval_strategy=steps eval_steps=1" },
  length_column_name = { "other", "tokenized_path=kept" },
  -- Method
  neftune_noise_alpha = { "5" },
  label_smoothing_factor = { "0.3" },
  stage = { "rm", "stage=dpo" },
  objective = { "own_loss.lua" },
  finetuning_type = { "full", "finetuning_type=lora" },
  count = { "targets", "train_on_prompt=true" },
  compute_accuracy = { "true", EVAL },
  early_stopping_steps = { "1", EVAL .. " max_steps=3 greater_is_better=true" },
  dpo_label_smoothing = { "0.3" },
  ld_alpha = { "0.5" },
  ref_model = { "begun", "stage=dpo" },
  ref_model_adapters = { "adapter", "stage=dpo ref_model=model" },
  precompute_ref_log_probs = { "true", "stage=dpo" },
  -- Adapters, quantized bases, freeze
  loraplus_lr_ratio = { "2" },
  lora_alpha = { "3" },
  lora_dropout = { "0.25" },
  lora_target = { "q_proj" },
  additional_target = { "embed_tokens" },
  create_new_adapter = { "true", "adapter_name_or_path=adapter" },
  pissa_iter = { "-1" },
  oft_block_size = { "8" },
  oft_rank = { "4", "oft_block_size=0 oft_rank=2" },
  oft_target = { "q_proj" },
  quantization_bit = { "4" },
  quantization_method = { "gguf", QLORA, refused = "with quantization_method: gguf" },
  quantization_type = { "fp4", QLORA },
  double_quantization = { "false", QLORA },
  quantization_device_map = { "auto", QLORA, refused = "quantization_device_map: auto" },
  ref_model_quantization_bit = { "4", "stage=dpo ref_model=model" },
  freeze_trainable_layers = { "1" },
  freeze_trainable_modules = { "mlp" },
  freeze_extra_modules = { "norm" },
  -- Rollouts
  rollout_spread_length = { "1" },
  steps_per_generation = { "2" },
  soft_overlong_cache = { "3" },
  num_completions_to_print = { "1" },
  beta = { "0.2" },
  reward_funcs = { "other_rewards.lua" },
  reward_weights = { "0.5,2" },
  rollout_hooks = { "tools.lua" },
  num_generations = { "4" },
  max_prompt_length = { "4" },
  min_p = { "0.9" },
  dynamic_sampling_rounds = { "1", "reward_funcs=same_rewards.lua" },
  missing_eos_penalty = { "2" },
  epsilon = { "0.001", CLIPPED },
  epsilon_high = { "0.001", CLIPPED },
  delta = { "1.201", CLIPPED },
  importance_sampling_level = { "sequence", CLIPPED },
  top_entropy_quantile = { "0.5" },
  -- Optimization
  on_nonfinite = { "skip", "objective=nan_loss.lua", fails = true },
  global_batch_size = { "6" },
  gradient_accumulation_steps = { "1" },
  per_device_train_batch_size = { "1" },
  num_train_epochs = { "1", "max_steps=-1" },
  max_steps = { "1" },
  lr_scheduler_type = { "constant" },
  lr_scheduler_kwargs = { "{power: 2}", "lr_scheduler_type=polynomial" },
  warmup_ratio = { "0.5" },
  optim = { "sgd" },
  optim_args = { "alpha=0.5", "optim=rmsprop" },
  adam_beta1 = { "0.5" },
  adam_beta2 = { "0.5" },
  outer_learning_rate = { "0.5" },
  outer_momentum = { "0.5", "outer_learning_rate=0.5" },
  outer_nesterov = { "true", "outer_momentum=0.5" },
  outer_momentum_clip = { "1e-6", "outer_momentum=0.5" },
  -- States
  expert_parallel_size = { "2", EXPERTS, way = "plan" },
  offload_weights = { "cpu", "offload_optimizer=cpu" },
  cast_weights = { "step", "bf16=true" },
  offload_dir = { ".", "offload_optimizer=disk" },
  deepspeed = { '{"zero_optimization":{"stage":2}}' },
  fsdp = { "full_shard" },
  fsdp_config = { '{"fsdp_version":2}' },
  accelerator_config = { '{"split_batches":true}', refused = "accelerator_config" },
  -- Optimizers of their own
  badam_start_block = { "1" },
  badam_switch_interval = { "1" },
  badam_update_ratio = { "0.5", "badam_mode=ratio" },
  badam_mask_mode = { "scatter", "badam_mode=ratio" },
  galore_update_interval = { "1" },
  galore_target = { "q_proj" },
  apollo_update_interval = { "1" },
  apollo_target = { "q_proj" },
  -- Run
  report_html = { "true" },
  peak_tflops = { "1" },
  data_seed = { "7" },
  output_dir = { "elsewhere" },
  overwrite_output_dir = { "false", "output_dir=occupied", refused = "output_dir" },
  do_train = { "false", "val_size=2 do_eval=true" },
  do_eval = { "true", "val_size=2" },
  do_predict = { "true", "val_size=2 do_eval=true predict_with_generate=true max_new_tokens=4" },
  predict_with_generate = { "true", "val_size=2 do_eval=true max_new_tokens=4" },
  logging_steps = { "2" },
  logging_first_step = { "true", "logging_steps=2" },
  logging_dir = { "elsewhere", "report_to=jsonl" },
  report_to = { "tensorboard" },
  report_command = { "cat > out/told", "report_to=command report_command=cat" },
  run_name = { nil, "report_to=jsonl" },
  use_swanlab = { nil, test = "trackers_test.cc" },
  swanlab_project = { nil, test = "trackers_test.cc" },
  swanlab_workspace = { nil, test = "trackers_test.cc" },
  swanlab_run_name = { nil, test = "trackers_test.cc" },
  swanlab_mode = { nil, test = "trackers_test.cc" },
  swanlab_api_key = { nil, test = "trackers_test.cc" },
  swanlab_logdir = { nil, test = "trackers_test.cc" },
  swanlab_lark_webhook_url = { nil, test = "trackers_test.cc" },
  swanlab_lark_secret = { nil, test = "trackers_test.cc" },
  trace = { "1" },
  save_strategy = { "steps", "save_steps=1" },
  save_steps = { "1", "save_steps=2" },
  save_total_limit = { "1", SAVE },
  save_only_model = { "true", SAVE },
  save_on_each_node = { "true", test = "other_engines_test.cc" },
  eval_strategy = { "epoch", EVAL },
  eval_steps = { "2", EVAL },
  eval_delay = { "2", EVAL },
  eval_on_start = { "true", EVAL },
  per_device_eval_batch_size = { "1", EVAL },
  load_best_model_at_end = { "true", EVAL .. " " .. SAVE },
  metric_for_best_model = { "accuracy", BEST .. " compute_accuracy=true" },
  greater_is_better = { "true", BEST },
  resume_from_checkpoint = { "begun/checkpoint-1" },
  ignore_data_skip = { "true", "resume_from_checkpoint=begun/checkpoint-1" },
  max_restarts = { "1", refused = "starts ranks" },
  use_cpu = { "true", way = "plan" },
  no_cuda = { "true", way = "plan" },
  -- Export
  export_dir = { "merged", "export_dir=elsewhere", way = "export" },
  export_gguf_type = { "bf16", "export_dir=merged.gguf", way = "export" },
  export_size = { "1", "export_dir=merged", way = "export" },
  infer_dtype = { "bfloat16", "export_dir=merged", way = "export" },
  -- Generation
  max_new_tokens = { "2", ANSWERS },
  temperature = { "0.1", ANSWERS },
  top_p = { "0.01", ANSWERS },
  top_k = { "1", ANSWERS },
  repetition_penalty = { "9", ANSWERS },
  do_sample = { "false", ANSWERS },
  skip_special_tokens = { "false", ANSWERS },
  eval_num_beams = { "2", ANSWERS, refused = "eval_num_beams: 2" },
  generation_num_beams = { "2", ANSWERS, refused = "generation_num_beams: 2" },
}

-- Files of the cases
-- ------------------------------------------------------------

local function write_rows(name, row_of)
  local lines = {}
  for i = 1, 8 do lines[i] = system.json_encode(row_of(i, ("moon %d "):format(i):rep(i))) end
  system.write("data/" .. name .. ".jsonl", table.concat(lines, "\n") .. "\n")
end

local function write_data()
  write_rows("pairs", function(i, text)
    return { instruction = "Tell me of " .. i, chosen = text, rejected = "sun " .. text }
  end)
  write_rows("judged", function(i, text)
    return { instruction = "Tell me of " .. i, output = text, good = i % 2 == 0 }
  end)
  write_rows("turns", function(i, text)
    return { instruction = "Tell me of " .. i, output = text, history = { { "Who?", "I" } } }
  end)
  write_rows("thoughts", function(i, text)
    local answer = "<think>\n" .. text .. "\n</think>\n\n" .. i
    return { instruction = "Tell me of " .. i, output = answer, history = { { "Who?", answer } } }
  end)
  local columns = { prompt = "instruction", response = "output", history = "history" }
  system.write("data/dataset_info.json", system.json_encode {
    rows = { file_name = "rows.jsonl" },
    pairs = { file_name = "pairs.jsonl", ranking = true,
      columns = { prompt = "instruction", chosen = "chosen", rejected = "rejected" } },
    judged = { file_name = "judged.jsonl",
      columns = { prompt = "instruction", response = "output", kto_tag = "good" } },
    turns = { file_name = "turns.jsonl", columns = columns },
    thoughts = { file_name = "thoughts.jsonl", columns = columns } })
  system.make_folder "other_data"
  system.write("other_data/rows.jsonl", system.read "data/turns.jsonl")
  system.write("other_data/dataset_info.json", '{"rows": {"file_name": "rows.jsonl"}}')
end

-- A folder with the tokenizer of `model` and another configuration.
local function write_model(name, changes)
  local config = system.json_decode(system.read "model/config.json")
  for key, value in pairs(changes) do config[key] = value end
  system.make_folder(name)
  for _, file in ipairs { "tokenizer.json", "tokenizer_config.json", "generation_config.json" } do
    system.write(name .. "/" .. file, system.read("model/" .. file))
  end
  system.write(name .. "/config.json", system.json_encode(config))
end

local FILES = {
  ["tokens.yaml"] = '"<|moon|>": "a satellite"\n',
  ["own_loss.lua"] = [[return { level = "token",
    count = function(batch) return batch:count_targets() end,
    loss = function(_, log_probs) return -2 * log_probs:sum() end }]],
  ["nan_loss.lua"] = [[return { level = "token",
    count = function(batch) return batch:count_targets() end,
    loss = function(_, log_probs) return log_probs:sum() * (0 / 0) end }]],
  ["source.lua"] = [[local i = 0
    return { next = function()
      i = i + 1
      return { messages = { { role = "user", content = "Who?" },
        { role = "assistant", content = "I am " .. i } } }
    end }]],
  ["rewards.lua"] = [[return { { name = "vowels", each = function(row)
      return select(2, row.completion:gsub("[aeiou]", "")) / math.max(#row.completion, 1)
    end }, { name = "short", each = function(row) return -#row.completion_ids / 100 end } }]],
  ["other_rewards.lua"] = [[return { { name = "length", each = function(row)
    return #row.completion end } }]],
  ["same_rewards.lua"] = 'return { { name = "same", each = function() return 1 end } }',
  ["tools.lua"] = 'return { stop_texts = { "e" }, continue = function() return { 9, 9 } end }',
  ["occupied/note"] = "of somebody else\n",
}

--- Writes the files that the cases name: data sets, models, an adapter, a checkpoint.
---@param train fun(words: string[]) trains with config.yaml and these arguments (key=value)
function cases.prepare(train)
  write_data()
  write_model("experts", { architectures = { "MixtralForCausalLM" }, model_type = "mixtral",
    num_local_experts = 4, num_experts_per_tok = 2 })
  write_model("mixed", { architectures = { "Qwen3NextForCausalLM" }, model_type = "qwen3_next",
    layer_types = { "linear_attention", "full_attention" }, linear_num_key_heads = 8,
    linear_num_value_heads = 8, linear_key_head_dim = 8, linear_value_head_dim = 8,
    linear_conv_kernel_dim = 4, partial_rotary_factor = 0.5, num_experts = 4,
    num_experts_per_tok = 2, moe_intermediate_size = 16, shared_expert_intermediate_size = 16,
    decoder_sparse_step = 1, mlp_only_layers = {}, norm_topk_prob = true })
  write_model("short", { vocab_size = 300 })
  system.make_folder "occupied"
  for path, text in pairs(FILES) do system.write(path, text) end
  train { "finetuning_type=lora", "output_dir=adapter", "save_strategy=no", "max_steps=2" }
  train { "output_dir=compared", "stage=dpo", "dataset=pairs", "precompute_ref_log_probs=true",
    "save_strategy=no", "max_steps=1" }
  train { "tokenized_path=kept", "save_strategy=no", "max_steps=1" }
  train { "output_dir=occupied", "overwrite_output_dir=true", "save_strategy=no", "max_steps=1" }
  train { "output_dir=begun", "save_steps=1", "max_steps=2", "lr_scheduler_type=linear" }
end

return cases
