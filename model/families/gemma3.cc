// Gemma 3, its text models: Gemma 2 with normed queries and keys in place of capped scores, and two
// rotaries: one of its own for the layers with a window.

#include "model/families/families.h"

#include "comm/status/status_macros.h"
#include "model/config/config_fields.h"
#include "model/config/rotary_config.h"
#include "nlohmann/json.hpp"

namespace moonring::model {

namespace {

bool Slides(const JsonFields& fields, int64_t layer) {
  return (layer + 1) % *ReadSize(fields, "sliding_window_pattern", 6) != 0;
}

// Transformers 5 writes one object for each kind of layer into rope_parameters.
absl::StatusOr<RotaryRule> ReadLocalRotary(const JsonFields& fields, const ModelConfig& config) {
  RotaryRule rule;
  rule.dim = config.rotaries[0].dim;
  const nlohmann::json* parameters = fields.Find("rope_parameters");
  double theta = 10000.0;
  if (parameters != nullptr && parameters->is_object() &&
      parameters->contains("sliding_attention")) {
    const JsonFields local((*parameters)["sliding_attention"],
                           fields.where() + ": rope_parameters: sliding_attention");
    ASSIGN_OR_RETURN(theta, ReadPositive(local, "rope_theta", theta));
  }
  ASSIGN_OR_RETURN(rule.theta, ReadPositive(fields, "rope_local_base_freq", theta));
  return rule;
}

absl::Status Read(const JsonFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(ReadGemma2(fields, config));
  config.noise_after_scale = true;
  config.score_softcap = 0.0;  // Transformers reads the key and passes it to nothing
  config.head_norm = HeadNorm::kEachHead;
  ASSIGN_OR_RETURN(const bool bidirectional, fields.Bool("use_bidirectional_attention", false));
  if (bidirectional)
    return fields.Wrong("use_bidirectional_attention", "false: attention here is causal");
  ASSIGN_OR_RETURN(RotaryRule local, ReadLocalRotary(fields, config));
  config.rotaries.push_back(std::move(local));
  ASSIGN_OR_RETURN(const int64_t window, ReadSize(fields, "sliding_window", 4096));
  RETURN_IF_ERROR(ReadSize(fields, "sliding_window_pattern", 6).status());
  RETURN_IF_ERROR(ReadLayerTypes(fields, window, Slides, config));
  for (LayerRule& layer : config.layer_rules) layer.rotary = layer.window > 0 ? 1 : 0;
  return absl::OkStatus();
}

WeightNames Names() {
  WeightNames names = GemmaNames();
  names.in_block[kQueryNorm] = "self_attn.q_norm";
  names.in_block[kKeyNorm] = "self_attn.k_norm";
  return names;
}

}  // namespace

Family Gemma3() {
  return {
      .title = "Gemma 3 (text)",
      .architecture = "Gemma3ForCausalLM",
      .model_type = "gemma3_text",
      .kv_heads = 4,
      .head_dim = 256,
      .rope_theta = 1000000.0,
      .max_position_embeddings = 131072,
      .tied = true,
      .pad_token_id = 0,
      .names = Names(),
      .gguf = {.architecture = "gemma3", .norms_have_one = true},
      .read = Read,
  };
}

}  // namespace moonring::model
