#include "model/blocks/block_rule.h"

namespace moonring::model {

BlockRule BlockRuleOf(const ModelConfig& config, int64_t layer, at::ScalarType matmul_dtype,
                      std::optional<at::ScalarType> stream_dtype) {
  BlockRule rule;
  rule.mixer = config.layer_rules[layer].mixer;
  rule.heads = config.heads;
  rule.kv_heads = config.kv_heads;
  rule.head_dim = config.head_dim;
  rule.rms_norm_eps = config.rms_norm_eps;
  rule.matmul_dtype = matmul_dtype;
  rule.stream_dtype = stream_dtype;
  rule.scores.scale = config.score_scale;
  rule.scores.softcap = config.score_softcap;
  rule.scores.window = config.layer_rules[layer].window;
  rule.scores.layer = layer;
  rule.residual_scale = config.residual_scale;
  rule.norm_adds_one = config.norm_adds_one;
  rule.head_norm = config.head_norm;
  rule.gated_heads = config.gated_heads;
  rule.qkv_rows = config.family->qkv_rows;
  rule.activation = config.activation;
  rule.delta = config.delta;
  rule.convolution = config.convolution;
  if (config.layer_rules[layer].experts) rule.experts = config.experts;
  return rule;
}

}  // namespace moonring::model
