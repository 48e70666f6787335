#ifndef MOONRING_MODEL_BLOCKS_BLOCK_RULE_H_
#define MOONRING_MODEL_BLOCKS_BLOCK_RULE_H_

// The properties of one block's computation, from the model's config.

#include <cstdint>
#include <optional>

#include <c10/core/ScalarType.h>

#include "attention/attention.h"
#include "model/config/activation.h"
#include "model/config/config.h"
#include "model/config/family.h"

namespace moonring::model {

struct BlockRule : MixerRules {
  const Mixer* mixer = nullptr;  // null: the layer has only an MLP
  bool mlp = true;               // false: the layer has neither a dense MLP nor experts
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  double rms_norm_eps = 0.0;
  at::ScalarType matmul_dtype = at::kFloat;
  // Dtype of the residual stream; absent: fp32, or fp64 if matmul_dtype is fp64.
  std::optional<at::ScalarType> stream_dtype;
  attention::ScoreRule scores;
  double residual_scale = 1.0;
  bool norm_adds_one = false;
  HeadNorm head_norm = HeadNorm::kNone;
  bool gated_heads = false;
  bool value_norm = false, keys_are_values = false;
  bool hands_on_keys = false;  // a later block uses this block's keys and values
  QkvRows qkv_rows = QkvRows::kStacked;
  Activation activation = Activation::kSilu;
  ExpertRule experts;
};

BlockRule BlockRuleOf(const ModelConfig& config, int64_t layer, at::ScalarType matmul_dtype,
                      std::optional<at::ScalarType> stream_dtype = std::nullopt);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_BLOCK_RULE_H_
