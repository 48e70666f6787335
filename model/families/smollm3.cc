// SmolLM3: a Llama with some layers without rotary embedding (Yang et al. 2025, arXiv:2501.18795);
// those may have a sliding window.

#include "model/families/families.h"

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "model/config/config_fields.h"
#include "nlohmann/json.hpp"

namespace moonring::model {

namespace {

// Reads no_rope_layers, a list with a 1 for each layer that has rotary embedding.
absl::Status ReadTurning(const JsonFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int64_t every, ReadSize(fields, "no_rope_layer_interval", 4));
  const nlohmann::json* list = fields.Find("no_rope_layers");
  const absl::Status wrong =
      fields.Wrong("no_rope_layers", absl::StrCat("a list of ", config.layers, " numbers, 0 or 1"));
  if (list != nullptr && (!list->is_array() || static_cast<int64_t>(list->size()) != config.layers))
    return wrong;
  for (int64_t i = 0; i < config.layers; ++i) {
    if (list != nullptr && (*list)[i] != 0 && (*list)[i] != 1) return wrong;
    const bool turns = list != nullptr ? (*list)[i] == 1 : (i + 1) % every != 0;
    config.layer_rules[i].rotary = turns ? 0 : -1;
  }
  return absl::OkStatus();
}

absl::Status ReadSmolLm3(const JsonFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(ReadAttentionBias(fields, config));
  ASSIGN_OR_RETURN(config.mlp_bias, fields.Bool("mlp_bias", false));
  RETURN_IF_ERROR(ReadTurning(fields, config));
  ASSIGN_OR_RETURN(const bool used, fields.Bool("use_sliding_window", false));
  if (!used || fields.Find("sliding_window") == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t window, ReadSize(fields, "sliding_window", 1));
  if (fields.Find("layer_types") != nullptr) return ReadLayerTypes(fields, window, nullptr, config);
  for (LayerRule& layer : config.layer_rules) layer.window = layer.rotary < 0 ? window : 0;
  return absl::OkStatus();
}

}  // namespace

Family SmolLm3() {
  return {
      .title = "SmolLM3",
      .architecture = "SmolLM3ForCausalLM",
      .model_type = "smollm3",
      .kv_heads = 4,
      .rope_theta = 2000000.0,
      .max_position_embeddings = 32768,
      .tied = true,
      .pad_token_id = 128004,
      .names = LlamaNames(),
      .gguf = {.architecture = "smollm3", .interleaved_heads = true},
      .read = ReadSmolLm3,
  };
}

}  // namespace moonring::model
