--- Keys of LLaMA-Factory's methods that Moonring does not support. Fields of a row: keys/init.lua.
--   only     values other than the default are refused for this reason, with an alternative if any
--   ignored  any value is accepted without effect
local system = require "moonring.native.system"
local null = system.null

local sections = {}

local function section(title, rows)
  sections[#sections + 1] = { title = title, rows = rows }
end

--- Completes rows of keys that have an effect only together with the key `owner`, which is refused.
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

section("Quantisation", join({
  { "fp8", "bool", false, "matmuls in fp8", only = "use bf16" },
}, parts_of("fp8", {
  { "fp8_backend", "string", "auto" },
  { "fp8_enable_fsdp_float8_all_gather", "bool", false },
}), {
  { "reward_model_quantization_bit", "int", null, "bits of the reward model's weights",
    only = "no stage has a separate reward model" },
  { "export_quantization_bit", "int", null, "bits of exported weights",
    only = "export writes the checkpoint's own dtype; quantise it after" },
}, parts_of("export_quantization_bit", {
  { "export_quantization_dataset", "string", null },
  { "export_quantization_nsamples", "int", 128 },
  { "export_quantization_maxlen", "int", 1024 },
})))

section("Other methods", join(parts_of("stage ppo", {
  { "reward_model", "string", null },
  { "reward_model_adapters", "list", null },
  { "reward_model_type", "string", "lora" },
  { "ppo_buffer_size", "int", 1 },
  { "ppo_epochs", "int", 4 },
  { "ppo_score_norm", "bool", false },
  { "ppo_target", "float", 6.0 },
  { "ppo_whiten_rewards", "bool", false },
}), {
  { "mixture_of_depths", "string", null, "mixture of depths", only = "no supported model has it" },
  { "use_mca", "bool", false, "Megatron", only = "sequence_parallel_size spreads a sequence over "
    .. "ranks" },
  { "use_hyper_parallel", "bool", false, "HyperParallel",
    only = "sequence_parallel_size spreads a sequence over ranks" },
  { "use_kt", "bool", false, "KTransformers", only = "experts are computed by Moonring itself" },
  { "use_v1_kernels", "bool", false, "kernels of LLaMA-Factory's next version",
    ignored = "all kernels are exact; the fastest available one is used" },
}, parts_of("use_hyper_parallel", { { "hyper_parallel_args", "any", null } }), parts_of("use_kt", {
  { "kt_weight_path", "string", null },
  { "kt_expert_checkpoint_path", "string", null },
  { "kt_use_lora_experts", "bool", null },
  { "kt_lora_expert_num", "int", null },
  { "kt_lora_expert_intermediate_size", "int", null },
})))

return sections
