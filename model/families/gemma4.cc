// Gemma 4, text models: normalised queries, keys and values; layers with and without a window,
// which differ in head size, kv heads and rotary. Keys of config.json enable these options: one map
// for keys and values; last layers that use the keys and values of earlier layers, and whose MLP
// may be twice as wide; a second embedding; experts in parallel to each dense MLP.

#include "model/families/families.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "model/config/config_fields.h"
#include "model/config/rotary_config.h"
#include "nlohmann/json.hpp"

namespace moonring::model {

namespace {

bool SlidesInGemma4(const JsonFields&, int64_t layer) { return (layer + 1) % 6 != 0; }

// Reads the sizes of layers without a window: global_head_dim and, if keys and values are one map,
// num_global_key_value_heads; or per_layer_config, which Transformers writes and which has the
// values that differ, by layer.
absl::Status ReadSizesOfLayers(const JsonFields& fields, ModelConfig& config) {
  const nlohmann::json* listed = fields.Find("per_layer_config");
  if (listed != nullptr && !listed->is_object())
    return fields.Wrong("per_layer_config", "an object by layer");
  ASSIGN_OR_RETURN(const int64_t head_dim, ReadSize(fields, "global_head_dim", 512));
  ASSIGN_OR_RETURN(const int64_t kv_heads,
                   ReadSize(fields, "num_global_key_value_heads", config.kv_heads));
  for (int64_t i = 0; i < config.layers; ++i) {
    LayerRule& layer = config.layer_rules[i];
    if (listed != nullptr) {
      const auto own = listed->find(absl::StrCat(i));
      if (own == listed->end()) continue;
      if (!own->is_object()) return fields.Wrong("per_layer_config", "an object by layer");
      const JsonFields of_layer(*own, absl::StrCat(fields.where(), ": per_layer_config: ", i));
      ASSIGN_OR_RETURN(layer.head_dim, ReadSize(of_layer, "head_dim", layer.head_dim));
      ASSIGN_OR_RETURN(layer.kv_heads, ReadSize(of_layer, "num_key_value_heads", layer.kv_heads));
    } else if (layer.window == 0) {
      layer.head_dim = head_dim;
      if (layer.keys_are_values) layer.kv_heads = kv_heads;
    }
    if (config.heads % layer.kv_heads != 0 || config.heads * layer.head_dim > kLargestSize) {
      return absl::InvalidArgumentError(
          absl::StrCat(fields.where(), ": layer ", i, " has ", layer.kv_heads, " kv heads of ",
                       layer.head_dim, " features for ", config.heads,
                       " heads, expected a divisor, and heads x size below 2^31"));
    }
  }
  return absl::OkStatus();
}

// The last num_kv_shared_layers layers use the keys and values of an earlier layer: the last layer
// before them of the same kind (with or without a window).
absl::Status ShareKeys(const JsonFields& fields, ModelConfig& config) {
  const nlohmann::json* given = fields.Find("num_kv_shared_layers");
  if (given == nullptr || *given == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t shared,
                   ReadSize(fields, "num_kv_shared_layers", 1, config.layers - 1));
  ASSIGN_OR_RETURN(const bool wide, fields.Bool("use_double_wide_mlp", false));
  const int64_t first = config.layers - shared;
  for (int64_t i = first; i < config.layers; ++i) {
    LayerRule& layer = config.layer_rules[i];
    for (int64_t j = 0; j < first; ++j) {
      if ((config.layer_rules[j].window > 0) == (layer.window > 0)) layer.keys_of = j;
    }
    if (layer.keys_of < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(fields.where(), ": num_kv_shared_layers: layer ", i,
                       " is to take the keys of an earlier layer of its type, of which there is "
                       "none among the first ",
                       first));
    }
    const LayerRule& maker = config.layer_rules[layer.keys_of];
    if (maker.head_dim != layer.head_dim || maker.kv_heads != layer.kv_heads) {
      return absl::InvalidArgumentError(
          absl::StrCat(fields.where(), ": layer ", i, " takes the keys of layer ", layer.keys_of,
                       ", ", maker.kv_heads, " heads of ", maker.head_dim, ", expected ",
                       layer.kv_heads, " of ", layer.head_dim));
    }
    if (wide) layer.intermediate_size *= 2;
  }
  return absl::OkStatus();
}

// Reads the rotary embeddings. Layers without a window use the rotary embedding of full_attention,
// with their own head size.
absl::Status ReadRotaries(const JsonFields& fields, ModelConfig& config) {
  int64_t whole = config.head_dim;
  for (const LayerRule& layer : config.layer_rules) {
    if (layer.window == 0) whole = layer.head_dim;
  }
  ModelConfig of_whole = config;
  of_whole.head_dim = whole;
  if (fields.Find("rope_parameters") == nullptr) {
    RotaryRule& rule = of_whole.rotaries[0];
    rule.kind = RopeKind::kProportional;
    rule.theta = 1e6;
    rule.dim = whole;
    rule.turning_pairs = whole / 8;
  } else {
    ASSIGN_OR_RETURN(of_whole.rotaries[0], ReadRotary(fields, of_whole));
  }
  config.rotaries = {of_whole.rotaries[0]};
  config.rotaries[0].dim = config.head_dim;  // in layers with a window all features are rotated
  RETURN_IF_ERROR(ReadWindowRotary(fields, 10000.0, config));
  config.rotaries[0] = of_whole.rotaries[0];
  return absl::OkStatus();
}

absl::Status ReadLayerInputs(const JsonFields& fields, ModelConfig& config) {
  const nlohmann::json* width = fields.Find("hidden_size_per_layer_input");
  if (fields.Has("hidden_size_per_layer_input") && (width == nullptr || *width == 0))
    return absl::OkStatus();
  ASSIGN_OR_RETURN(config.layer_inputs.width, ReadSize(fields, "hidden_size_per_layer_input", 256));
  ASSIGN_OR_RETURN(config.layer_inputs.vocab_size,
                   ReadSize(fields, "vocab_size_per_layer_input", 262144));
  if (config.layer_inputs.width * config.layers > kLargestSize)
    return fields.Wrong("hidden_size_per_layer_input", "layers x features below 2^31");
  return absl::OkStatus();
}

absl::Status ReadExperts(const JsonFields& fields, ModelConfig& config) {
  ExpertRule& experts = config.experts;
  ASSIGN_OR_RETURN(experts.count, ReadSize(fields, "num_experts", std::nullopt));
  ASSIGN_OR_RETURN(experts.chosen, ReadSize(fields, "top_k_experts", std::nullopt));
  ASSIGN_OR_RETURN(experts.intermediate, ReadSize(fields, "moe_intermediate_size", std::nullopt));
  experts.normalised = true;
  experts.storage = ExpertStorage::kStacked;
  experts.beside_dense = true;
  for (LayerRule& layer : config.layer_rules) layer.experts = true;
  return absl::OkStatus();
}

absl::Status ReadGemma4(const JsonFields& fields, ModelConfig& config) {
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  config.noise_after_scale = true;
  config.head_norm = HeadNorm::kEachHead;
  config.value_norm = true;
  config.score_scale = 1.0;
  RETURN_IF_ERROR(ReadAttentionBias(fields, config));
  RETURN_IF_ERROR(ReadActivation(fields, "hidden_activation", "gelu_pytorch_tanh", config));
  ASSIGN_OR_RETURN(config.logit_softcap, ReadSoftcap(fields, "final_logit_softcapping"));
  // The value "vision" is accepted, because it makes attention bidirectional only among image
  // tokens.
  if (const nlohmann::json* ways = fields.Find("use_bidirectional_attention");
      ways != nullptr && *ways != "vision" && *ways != false)
    return fields.Wrong("use_bidirectional_attention", "null or vision: attention here is causal");
  ASSIGN_OR_RETURN(const bool mixture, fields.Bool("enable_moe_block", false));
  if (mixture) RETURN_IF_ERROR(ReadExperts(fields, config));
  ASSIGN_OR_RETURN(const int64_t window, ReadSize(fields, "sliding_window", 512));
  RETURN_IF_ERROR(ReadLayerTypes(fields, window, SlidesInGemma4, config));
  config.layer_rules.back().window = 0;  // whatever the list says, as in Transformers
  ASSIGN_OR_RETURN(const bool keys_are_values, fields.Bool("attention_k_eq_v", false));
  for (LayerRule& layer : config.layer_rules)
    layer.keys_are_values = keys_are_values && layer.window == 0;
  RETURN_IF_ERROR(ReadSizesOfLayers(fields, config));
  RETURN_IF_ERROR(ShareKeys(fields, config));
  RETURN_IF_ERROR(ReadRotaries(fields, config));
  return ReadLayerInputs(fields, config);
}

WeightNames NamesOfGemma4() {
  WeightNames names = GemmaNames();
  names.in_block[kQueryNorm] = "self_attn.q_norm";
  names.in_block[kKeyNorm] = "self_attn.k_norm";
  names.in_block[kLayerInputGate] = "per_layer_input_gate";
  names.in_block[kLayerInputMap] = "per_layer_projection";
  names.in_block[kLayerInputNorm] = "post_per_layer_input_norm";
  names.in_block[kLayerScale] = "layer_scalar";
  names.in_block[kRouter] = "router.proj";
  names.in_block[kRouterScale] = "router.scale";
  names.in_block[kExpertScale] = "router.per_expert_scale";
  names.in_block[kExpertsGateUp] = "experts.gate_up_proj";
  names.in_block[kExpertsDown] = "experts.down_proj";
  names.in_block[kDenseNorm] = "post_feedforward_layernorm_1";
  names.in_block[kExpertsNorm] = "post_feedforward_layernorm_2";
  names.in_block[kExpertsInputNorm] = "pre_feedforward_layernorm_2";
  names.layer_table = "model.embed_tokens_per_layer";
  names.layer_map = "model.per_layer_model_projection";
  names.layer_map_norm = "model.per_layer_projection_norm";
  return names;
}

}  // namespace

Family Gemma4() {
  return {
      .title = "Gemma 4 (text)",
      .architecture = "Gemma4ForCausalLM",
      .model_type = "gemma4_text",
      .kv_heads = 4,
      .head_dim = 256,
      .max_position_embeddings = 131072,
      .tied = true,
      .pad_token_id = 0,
      .newer = true,
      .scales_rope = false,
      .names = NamesOfGemma4(),
      .read = ReadGemma4,
  };
}

}  // namespace moonring::model
