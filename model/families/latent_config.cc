#include "model/families/latent_config.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "model/config/config_fields.h"
#include "model/config/rotary_config.h"
#include "model/mixers/mixers.h"

namespace moonring::model {
namespace {

absl::Status ReadLatentSizes(const JsonFields& fields, const LatentSizes& sizes,
                             ModelConfig& config) {
  LatentRule& rule = config.latent;
  ASSIGN_OR_RETURN(rule.key_value_rank, ReadSize(fields, "kv_lora_rank", sizes.key_value_rank));
  const bool whole =
      fields.Has("q_lora_rank") ? fields.Find("q_lora_rank") == nullptr : sizes.query_rank == 0;
  if (!whole) {
    ASSIGN_OR_RETURN(rule.query_rank, ReadSize(fields, "q_lora_rank", sizes.query_rank));
  }
  ASSIGN_OR_RETURN(rule.plain_dim, ReadSize(fields, "qk_nope_head_dim", sizes.plain_dim));
  ASSIGN_OR_RETURN(rule.rotary_dim, ReadSize(fields, "qk_rope_head_dim", sizes.rotary_dim));
  ASSIGN_OR_RETURN(rule.value_dim, ReadSize(fields, "v_head_dim", sizes.value_dim));
  if (rule.plain_dim + std::max(rule.rotary_dim, rule.value_dim) > kLargestSize / config.heads)
    return fields.Wrong("qk_nope_head_dim", "heads x features of a head below 2^31");
  if (rule.key_value_rank > kLargestSize - rule.rotary_dim)
    return fields.Wrong("kv_lora_rank", "a rank that with qk_rope_head_dim is below 2^31");
  if (config.kv_heads == config.heads) return absl::OkStatus();
  return fields.Wrong("num_key_value_heads",
                      absl::StrCat("as many as num_attention_heads, ", config.heads,
                                   ": each head has its own key"));
}

}  // namespace

absl::Status ReadLatent(const JsonFields& fields, const LatentSizes& sizes, bool turns,
                        ModelConfig& config) {
  RETURN_IF_ERROR(ReadLatentSizes(fields, sizes, config));
  RETURN_IF_ERROR(ReadAttentionBias(fields, config));
  const LatentRule& rule = config.latent;
  double magnitude = 1.0;
  if (turns) {
    if (rule.rotary_dim % 2 != 0)
      return fields.Wrong("qk_rope_head_dim", "an even number (rotary embedding rotates pairs)");
    config.head_dim = rule.rotary_dim;
    ASSIGN_OR_RETURN(config.rotaries[0], ReadRotary(fields, config));
    ASSIGN_OR_RETURN(config.rotaries[0].interleaved, fields.Bool("rope_interleave", true));
    ASSIGN_OR_RETURN(magnitude, ReadScoreMagnitude(fields));
  }
  config.head_dim = rule.key_dim();
  config.score_scale = magnitude / std::sqrt(static_cast<double>(config.head_dim));
  for (LayerRule& layer : config.layer_rules) {
    layer.mixer = &kLatentAttention;
    layer.head_dim = config.head_dim;
    if (!turns) layer.rotary = -1;
  }
  return absl::OkStatus();
}

}  // namespace moonring::model
