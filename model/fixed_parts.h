#ifndef MOONRING_MODEL_FIXED_PARTS_H_
#define MOONRING_MODEL_FIXED_PARTS_H_

// Parts of an adapter's folder that change the model and are frozen here: all but low-rank weights
// of linear maps and modules trained whole. By PEFT's (0.18) options, for a weight W of the base:
//
//   weights in the base's place   W' = w           (embeddings saved beside; bias: all, lora_only)
//   LoRA of an embedding          W' = W + s (B A)^T,  A [R, V], B [D, R]: the head that is tied to
//                                 it stays the base's
//   LoRA or DoRA of a head        W' = W + s B A,  g W'
//   trainable_token_indices       rows of W' are the file's, of a tied head too
//   lora_bias                     b' = b + s b_B: a bias where the base has none is 0
//
// Sums are made in fp64 and rounded once.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "model/config/config.h"

namespace moonring::model {

struct FixedChange {
  at::Tensor whole;        // in the base's place; undefined: the base's
  at::Tensor a_RI, b_OR;   // added, times scale; undefined: nothing
  at::Tensor magnitude_O;  // DoRA's; undefined: none
  at::Tensor plus_O;       // added to a bias, times scale; undefined: nothing
  double scale = 1.0;
  std::vector<int64_t> tokens;  // rows that are rows_ND's
  at::Tensor rows_ND;
};

class FixedParts {
 public:
  std::map<std::string, FixedChange> changes;  // by the weight's published name
  std::map<std::string, at::Tensor> tensors;   // as they came, by PEFT's names: written again
  std::string config;                // a JSON object: their options in adapter_config.json
  std::vector<std::string> targets;  // modules with low-rank weights here
  std::vector<std::string> words;    // of each, for people

  bool Changes(const std::string& weight) const { return changes.contains(weight); }
  // Whether a tied embedding and head are no longer equal.
  bool Parts(const std::string& embedding, const std::string& head) const;
  // A weight of the base with its change applied.
  at::Tensor Applied(const std::string& name, const at::Tensor& weight) const;
  // The config of a base with them: it says that maps have biases which the base has not
  // (attention_bias, mlp_bias). UNIMPLEMENTED: its kind of model has no such biases.
  absl::StatusOr<ModelConfig> ConfigOver(const ModelConfig& base) const;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FIXED_PARTS_H_
