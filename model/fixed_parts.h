#ifndef MOONRING_MODEL_FIXED_PARTS_H_
#define MOONRING_MODEL_FIXED_PARTS_H_

// Weights in an adapter's folder that change the model but are not trained here, that is all
// weights except low-rank weights of linear maps and fully trained modules. They are listed by
// PEFT's (0.18) options. W is a weight of the base model, W' the changed weight; s is the scale of
// the low-rank product B A, g DoRA's gain of each row (projection.h):
//
//   replaced weights              W' = w           (saved embeddings; bias: all, lora_only)
//   LoRA of an embedding          W' = W + s (B A)^T,  A [R, V], B [D, R]; a tied head stays the
//                                 base's
//   LoRA or DoRA of a head        W' = W + s B A,  g W'
//   trainable_token_indices       rows of W' come from the file, also in a tied head
//   lora_bias                     b' = b + s b_B; b is 0 where the base has no bias
//
// Sums are computed in fp64 and rounded once.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "model/config/config.h"

namespace moonring::model {

struct FixedChange {
  at::Tensor whole;        // replaces the base's weight; undefined: not replaced
  at::Tensor a_RI, b_OR;   // low-rank term, times scale; undefined: none
  at::Tensor magnitude_O;  // DoRA's; undefined: none
  at::Tensor plus_O;       // added to a bias, times scale; undefined: none
  double scale = 1.0;
  std::vector<int64_t> tokens;  // rows that are replaced by rows_ND
  at::Tensor rows_ND;
};

class FixedParts {
 public:
  std::map<std::string, FixedChange> changes;  // by the weight's published name
  std::map<std::string, at::Tensor> tensors;   // by PEFT's names, as read; saved unchanged
  std::string config;                          // JSON object: the options in adapter_config.json
  std::vector<std::string> targets;            // modules whose frozen weights are low-rank
  std::vector<std::string> words;              // a description of each change, for messages

  bool Changes(const std::string& weight) const { return changes.contains(weight); }
  // Whether the changes make a tied embedding and head different.
  bool Parts(const std::string& embedding, const std::string& head) const;
  // Returns a weight of the base with its change applied.
  at::Tensor Applied(const std::string& name, const at::Tensor& weight) const;
  // Returns the config of the changed model: the base's config, with attention_bias or mlp_bias
  // enabled if the changes add such biases. UNIMPLEMENTED if the architecture cannot have them.
  absl::StatusOr<ModelConfig> ConfigOver(const ModelConfig& base) const;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FIXED_PARTS_H_
