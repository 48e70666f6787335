#ifndef MOONRING_TRAINER_RULES_ADAM_MINI_H_
#define MOONRING_TRAINER_RULES_ADAM_MINI_H_

// Adam-mini (Zhang et al. 2024, arXiv 2406.16793, algorithm 1), equal to the package adam-mini
// 1.1.1 and LLaMA-Factory's use_adam_mini: one second moment per block of a weight (w: weight, g:
// gradient, m and v: its moments, b1 and b2: the betas, step t = 1, 2, ..).
//
//   w <- w (1 - lr decay)
//   m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) mean of g^2 over the block
//   w <- w - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps)
//
// The blocks depend on the first entry of this list that the name contains, as in the package:
//
//   "bias"                                       each element: Adam
//   q_proj, k_proj, wq, wk, query, key           hidden_size^2 / heads elements: one head, if heads
//                                                have hidden_size / heads features (if they are
//                                                larger, as in Qwen3, a section of one)
//   embed, embd, wte (embeddings); lm_head, output, final_layer (the head); v_proj, wv, value;
//   feed_forward, linear, mlp; o_proj, wo, attn.proj
//                                                a row: a token, or a neuron; also in a stack of
//                                                matrices. A vector is one block
//   others (norms)                               the whole weight
//
// Weight decay applies to all parameters except biases and norms
// (trainer/optimizer/weight_decay.h).
//
// Parameters that one rank processes unsharded: all but biases. State: m, 4 bytes per element, and
// one v per block.

#include <cstdint>
#include <tuple>

#include "absl/status/statusor.h"
#include "base/text/fields.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

struct AdamMiniOptions {
  int64_t hidden_size = 0, heads = 0;  // of the model
  AdamOptions adam;
  double weight_decay = 0.0;

  static constexpr std::tuple kFields = {
      base::Field{"hidden_size", &AdamMiniOptions::hidden_size, base::Range::kPositive,
                  "the model's hidden size", base::kRequired},
      base::Field{"heads", &AdamMiniOptions::heads, base::Range::kPositive,
                  "the model's number of query heads", base::kRequired},
      base::Field{"adam", &AdamMiniOptions::adam},
      base::Field{"weight_decay", &AdamMiniOptions::weight_decay, base::Range::kNotNegative,
                  kDecayMeaning},
  };
};

// INVALID_ARGUMENT if a query or key weight is not a multiple of the block size.
absl::StatusOr<NativeRule> AdamMiniRule(const AdamMiniOptions& options,
                                        const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_ADAM_MINI_H_
