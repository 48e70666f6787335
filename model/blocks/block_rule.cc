#include "model/blocks/block_rule.h"

#include <algorithm>

namespace moonring::model {

BlockRule BlockRuleOf(const ModelConfig& config, int64_t layer, at::ScalarType matmul_dtype,
                      std::optional<at::ScalarType> stream_dtype) {
  const LayerRule& of_layer = config.layer_rules[layer];
  BlockRule rule;
  static_cast<MixerRules&>(rule) = config;
  rule.mixer = of_layer.mixer;
  rule.mlp = of_layer.mlp;
  rule.heads = config.heads;
  rule.kv_heads = of_layer.kv_heads;
  rule.head_dim = of_layer.head_dim;
  rule.rms_norm_eps = config.rms_norm_eps;
  rule.matmul_dtype = matmul_dtype;
  rule.stream_dtype = stream_dtype;
  rule.scores.scale = config.score_scale;
  rule.scores.softcap = config.score_softcap;
  rule.scores.window = of_layer.window;
  rule.scores.layer = layer;
  rule.residual_scale = config.residual_scale;
  rule.norm_adds_one = config.norm_adds_one;
  rule.head_norm = config.head_norm;
  rule.gated_heads = config.gated_heads;
  rule.value_norm = config.value_norm;
  rule.keys_are_values = of_layer.keys_are_values;
  rule.hands_on_keys = std::any_of(config.layer_rules.begin(), config.layer_rules.end(),
                                   [&](const LayerRule& later) { return later.keys_of == layer; });
  rule.qkv_rows = config.family->qkv_rows;
  rule.activation = config.activation;
  if (of_layer.experts) rule.experts = config.experts;
  return rule;
}

}  // namespace moonring::model
