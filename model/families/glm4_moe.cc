// GLM-4.5 and 4.6 (GLM-4.5 team 2025, arXiv:2508.06471): mixtures of experts routed as in
// DeepSeek-V3, with a shared expert; the first layers' MLP is dense. The multi-token prediction
// layer of published files is skipped, as in Transformers.

#include "model/families/families.h"

#include "base/status/status_macros.h"
#include "model/config/config_fields.h"

namespace moonring::model {

namespace {

absl::Status ReadGlm4Moe(const JsonFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.qkv_bias, fields.Bool("attention_bias", false));
  ASSIGN_OR_RETURN(const bool normed, fields.Bool("use_qk_norm", false));
  if (normed) config.head_norm = HeadNorm::kEachHead;
  return ReadGroupedExperts(fields,
                            {.count = 128,
                             .chosen = 8,
                             .intermediate = 1408,
                             .groups = 1,
                             .chosen_groups = 1,
                             .scale = 1.0,
                             .dense_layers = 1},
                            config);
}

WeightNames NamesOfGlm4Moe() {
  WeightNames names = Qwen3Names();
  AddGroupedExpertNames(names);
  return names;
}

}  // namespace

void AddGroupedExpertNames(WeightNames& names, const std::string& mixture) {
  names.in_block[kRouter] = mixture + ".gate";
  names.in_block[kRouterCorrection] = mixture + ".gate.e_score_correction_bias";
  names.in_block[kSharedGate] = mixture + ".shared_experts.gate_proj";
  names.in_block[kSharedUp] = mixture + ".shared_experts.up_proj";
  names.in_block[kSharedDown] = mixture + ".shared_experts.down_proj";
  names.expert = mixture + ".experts.%d.";
  names.in_expert = {"gate_proj", "up_proj", "down_proj"};
}

Family Glm4Moe() {
  return {
      .title = "GLM-4.5, 4.6",
      .architecture = "Glm4MoeForCausalLM",
      .model_type = "glm4_moe",
      .kv_heads = 8,
      .rms_norm_eps = 1e-5,
      .partial_rotary_factor = 0.5,
      .max_position_embeddings = 131072,
      .linear_router = false,
      .names = NamesOfGlm4Moe(),
      .gguf = {.architecture = "glm4moe", .norm_follows_attention = true},
      .read = ReadGlm4Moe,
  };
}

}  // namespace moonring::model
