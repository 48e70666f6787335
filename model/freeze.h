#ifndef MOONRING_MODEL_FREEZE_H_
#define MOONRING_MODEL_FREEZE_H_

// The trainable weights under `finetuning_type: freeze`, by LLaMA-Factory's rules (0.9.5,
// src/llamafactory/model/adapter.py, _setup_freeze_tuning):
//
//   layers    n > 0: the last n blocks; n < 0: the first -n; 0: none
//   modules   of those blocks: names directly under a block (self_attn, mlp, input_layernorm,
//             post_attention_layernorm), or "all"
//   extra     outside the blocks: embed_tokens, norm, lm_head (where it is not tied)
//
// A weight is trainable if its name contains ".<layer>.<module>" or an extra name anywhere. So the
// extra name "norm" makes the norms of all blocks trainable too, and "embed_tokens" a tied head.
// That is LLaMA-Factory's rule, kept so that the same YAML trains the same weights.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/config/config.h"

namespace moonring::model {

struct FreezeOptions {
  int64_t layers = 2;
  std::vector<std::string> modules = {"all"};
  std::vector<std::string> extra;
};

// Returns the published names of the trainable weights. INVALID_ARGUMENT if a module name is
// unknown (the message lists the known names), or if no weight would be trainable.
absl::StatusOr<std::set<std::string>> TrainableWeights(const ModelConfig& config,
                                                       const FreezeOptions& options);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FREEZE_H_
