// Qwen1.5-MoE and Qwen2-57B-A14B: a Qwen2 whose MLP is, in most layers, a mixture of experts with a
// shared expert.

#include "model/families/families.h"

#include "base/status/status_macros.h"
#include "model/config/config_fields.h"

namespace moonring::model {

namespace {

// If use_sliding_window is set, Transformers 4's own attention (eager, sdpa) applies the window to
// every layer. Transformers 5 applies it to the layers that layer_types names, and always writes
// layer_types.
absl::Status ReadQwen2Moe(const JsonFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.qkv_bias, fields.Bool("qkv_bias", true));
  ASSIGN_OR_RETURN(const bool used, fields.Bool("use_sliding_window", false));
  if (used) RETURN_IF_ERROR(ReadWindow(fields, 4096, config));
  if (used && fields.Find("layer_types") != nullptr)
    RETURN_IF_ERROR(ReadLayerTypes(fields, config.layer_rules[0].window, nullptr, config));
  ASSIGN_OR_RETURN(config.experts.shared,
                   ReadSize(fields, "shared_expert_intermediate_size", 5632));
  return ReadQwenExperts(fields, 60, 4, 1408, config);
}

}  // namespace

WeightNames WithQwenExperts(WeightNames names) {
  names.in_block[kRouter] = "mlp.gate";
  names.in_block[kSharedGate] = "mlp.shared_expert.gate_proj";
  names.in_block[kSharedUp] = "mlp.shared_expert.up_proj";
  names.in_block[kSharedDown] = "mlp.shared_expert.down_proj";
  names.in_block[kSharedSwitch] = "mlp.shared_expert_gate";
  names.expert = "mlp.experts.%d.";
  names.in_expert = {"gate_proj", "up_proj", "down_proj"};
  names.in_block[kExpertsGateUp] = "mlp.experts.gate_up_proj";  // if files store them stacked
  names.in_block[kExpertsDown] = "mlp.experts.down_proj";
  return names;
}

Family Qwen2Moe() {
  return {
      .title = "Qwen1.5-MoE, Qwen2-57B-A14B",
      .architecture = "Qwen2MoeForCausalLM",
      .model_type = "qwen2_moe",
      .kv_heads = 16,
      .max_position_embeddings = 32768,
      .names = WithQwenExperts(LlamaNames()),
      .gguf = {.architecture = "qwen2moe"},
      .read = ReadQwen2Moe,
  };
}

}  // namespace moonring::model
