#ifndef MOONRING_TRAINER_RULES_ADAM_MINI_H_
#define MOONRING_TRAINER_RULES_ADAM_MINI_H_

// Adam-mini (Zhang et al. 2024, arXiv 2406.16793, algorithm 1), as the package adam-mini 1.1.1 and
// LLaMA-Factory's use_adam_mini have it: one second moment a block of a weight.
//
//   w <- w (1 - lr decay)
//   m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) mean of g^2 over the block
//   w <- w - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps)
//
// The blocks, by the first of these that a name holds, as the package has them:
//
//   "bias"                                       each number: Adam
//   q_proj, k_proj, wq, wk, query, key           hidden_size^2 / heads numbers: a head's, where
//                                                heads have hidden_size / heads features (with
//                                                larger heads, as Qwen3's, a part of one)
//   embed, embd, wte (embeddings); lm_head, output, final_layer (the head); v_proj, wv, value;
//   feed_forward, linear, mlp; o_proj, wo, attn.proj
//                                                a row: a token, or a neuron; in a stack of
//                                                matrices too. A vector is one block
//   others (norms)                               all of it
//
// Weight decay is of those that decay (trainer/weight_decay.h).
//
// Whole: all but biases. State: m, 4 bytes a parameter, and v of each block.

#include <cstdint>

#include "absl/status/statusor.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

struct AdamMiniOptions {
  int64_t hidden_size = 0, heads = 0;  // the model's
  AdamOptions adam;
  double weight_decay = 0.0;
};

// INVALID_ARGUMENT where a query's or key's weight is no number of such blocks.
absl::StatusOr<NativeRule> AdamMiniRule(const AdamMiniOptions& options,
                                        const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_ADAM_MINI_H_
