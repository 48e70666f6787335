#ifndef MOONRING_TRAINER_RULES_SPAM_H_
#define MOONRING_TRAINER_RULES_SPAM_H_

// SPAM, spike-aware Adam with momentum reset (Huang et al. 2025, arXiv 2501.06842, algorithm 1),
// with what the authors' code adds to the text (step t = 1, 2, ..; c = t modulo `reset`):
//
//   m = v = 0 where c = 0
//   g <- sign(g) sqrt(theta v)  where g^2 > theta v, of steps with c >= `quiet`: before, v has seen
//                               too little
//   m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g^2
//   w <- w - s lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + eps)        w <- w (1 - lr decay)
//   s = 1 - 0.99 (1 + cos(pi c / (warmup + 1))) / 2 of c < warmup after the first reset; else 1
//
// With a `density` below 1, its sparse momentum (section 3.3): of a matrix of n numbers
// round(density n), 1 at least, are stepped so, and have m and v; the others stay as they are until
// they are drawn, undecayed too. The mask is drawn anew with each reset, by (seed, name, number of
// the reset): the numbers with the smallest of n uniform ones. What is no matrix (matrices.h),
// embeddings and heads keep all. The authors' code draws each number by itself after the first
// reset, so that their count varies; and its decay of a sparse matrix goes to a copy, and is lost.
//
// State: m and v, in the gradient's dtype, 8 bytes a parameter; of a matrix 8 density. The mask is
// drawn again in each step, some n fp32 numbers and their order.
//
// Whole: matrices with a density below 1; else none.

#include <cstdint>

#include "absl/status/statusor.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

struct SpamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double threshold = 5000.0;  // theta; 0: no gradient is clipped
  int64_t reset = 500;        // the paper's delta T
  int64_t warmup = 150;       // steps after a reset
  int64_t quiet = 20;         // the authors' grad_accu_steps
  double density = 1.0;
  int64_t seed = 0;  // of the masks
  double weight_decay = 0.0;
};

absl::StatusOr<NativeRule> SpamRule(const SpamOptions& options, const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_SPAM_H_
