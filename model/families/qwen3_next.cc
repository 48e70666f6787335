// Qwen3-Next: three of four layers are linear attention, the fourth is softmax attention with gated
// heads; mixtures of experts with a shared expert. Norms multiply by 1 + w.

#include "base/status/status_macros.h"
#include "model/config/config_fields.h"
#include "model/families/families.h"
#include "model/mixers/mixers.h"

namespace moonring::model {

absl::Status ReadQwen3Hybrid(const JsonFields& fields, ModelConfig& config) {
  config.norm_adds_one = true;
  config.head_norm = HeadNorm::kEachHead;
  config.gated_heads = true;
  RETURN_IF_ERROR(ReadAttentionBias(fields, config));
  RETURN_IF_ERROR(ReadDeltaRule(fields, {}, config));
  ASSIGN_OR_RETURN(const int64_t every, ReadAttentionInterval(fields));
  return ReadMixers(
      fields, kGatedDelta, [every](int64_t layer) { return (layer + 1) % every == 0; }, config);
}

namespace {

absl::Status ReadQwen3Next(const JsonFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(ReadQwen3Hybrid(fields, config));
  ASSIGN_OR_RETURN(config.experts.shared, ReadSize(fields, "shared_expert_intermediate_size", 512));
  RETURN_IF_ERROR(ReadQwenExperts(fields, 512, 10, 512, config));
  ASSIGN_OR_RETURN(config.experts.normalised, fields.Bool("norm_topk_prob", true));
  return absl::OkStatus();
}

WeightNames NamesOfQwen3Next() {
  WeightNames names = WithQwenExperts(Qwen3HybridNames());
  names.in_block[kDeltaQueryKeyValueGate] = "linear_attn.in_proj_qkvz";
  names.in_block[kDeltaBetaDecay] = "linear_attn.in_proj_ba";
  return names;
}

}  // namespace

WeightNames Qwen3HybridNames() {
  WeightNames names = Qwen3Names();
  names.in_block[kDeltaFilter] = "linear_attn.conv1d";
  names.in_block[kDeltaDecayLog] = "linear_attn.A_log";
  names.in_block[kDeltaDecayShift] = "linear_attn.dt_bias";
  names.in_block[kDeltaNorm] = "linear_attn.norm";
  names.in_block[kDeltaOutput] = "linear_attn.out_proj";
  return names;
}

Family Qwen3Next() {
  return {
      .title = "Qwen3-Next",
      .architecture = "Qwen3NextForCausalLM",
      .model_type = "qwen3_next",
      .kv_heads = 2,
      .head_dim = 256,
      .partial_rotary_factor = 0.25,
      .max_position_embeddings = 32768,
      .names = NamesOfQwen3Next(),
      .gguf = {.architecture = "qwen3next", .norms_have_one = true, .norm_follows_attention = true},
      .read = ReadQwen3Next,
  };
}

}  // namespace moonring::model
