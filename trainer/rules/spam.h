#ifndef MOONRING_TRAINER_RULES_SPAM_H_
#define MOONRING_TRAINER_RULES_SPAM_H_

// SPAM, spike-aware Adam with momentum reset (Huang et al. 2025, arXiv 2501.06842, algorithm 1),
// with the additions of the authors' code (w: weight, g: gradient, m and v: its moments, step t =
// 1, 2, ..; c = t modulo `reset`):
//
//   m = v = 0 if c = 0
//   g <- sign(g) sqrt(theta v)  if g^2 > theta v, in steps with c >= `quiet`; before, v is based on
//                               too few gradients
//   m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g^2
//   w <- w - s lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + eps)        w <- w (1 - lr decay)
//   s = 1 - 0.99 (1 + cos(pi c / (warmup + 1))) / 2 for c < warmup after the first reset; else 1
//
// With a `density` below 1, momentum is sparse (section 3.3): of the n elements of a matrix,
// round(density n), at least 1, are trained in this way and have m and v. All other elements are
// unchanged, also by the decay, until they are drawn. The mask is redrawn at each reset, from
// (seed, name, number of the reset): the elements with the smallest of n uniform random numbers.
// Non-matrices (matrices.h), embeddings and heads are trained entirely. Differences from the
// authors' code: it draws each element independently after the first reset, so that their number
// varies; and it applies the decay of a sparse matrix to a copy, which is lost.
//
// State: m and v, in the gradient's dtype, 8 bytes per element; for a sparse matrix 8 density. The
// mask is recomputed in each step, which takes about n fp32 numbers and their order.
//
// Parameters that one rank processes unsharded: matrices with a density below 1; otherwise none.

#include <cstdint>
#include <tuple>

#include "absl/status/statusor.h"
#include "base/text/fields.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

struct SpamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double threshold = 5000.0;  // theta; 0: gradients are not clipped
  int64_t reset = 500;        // the paper's delta T
  int64_t warmup = 150;       // steps after a reset
  int64_t quiet = 20;         // the authors' grad_accu_steps
  double density = 1.0;
  int64_t seed = 0;  // for the masks
  double weight_decay = 0.0;

  static constexpr std::tuple kFields = {
      base::Field{"beta1", &SpamOptions::beta1, base::Range::kFraction},
      base::Field{"beta2", &SpamOptions::beta2, base::Range::kFraction},
      base::Field{"epsilon", &SpamOptions::epsilon, base::Range::kNotNegative},
      base::Field{"threshold", &SpamOptions::threshold, base::Range::kNotNegative,
                  "an element of a gradient is clipped if its square exceeds the running mean of "
                  "squares by more than this factor; 0: no clipping"},
      base::Field{"reset", &SpamOptions::reset, base::Range::kPositive,
                  "steps after which the running means are reset to zero"},
      base::Field{"warmup", &SpamOptions::warmup, base::Range::kNotNegative,
                  "steps after a reset in which the learning rate is warmed up"},
      base::Field{"quiet", &SpamOptions::quiet, base::Range::kNotNegative,
                  "steps after a reset in which nothing is clipped"},
      base::Field{"density", &SpamOptions::density,
                  "fraction of each matrix that is trained until the next reset, which selects "
                  "another fraction"},
      base::Field{"seed", &SpamOptions::seed, "seed of the selection"},
      base::Field{"weight_decay", &SpamOptions::weight_decay, base::Range::kNotNegative,
                  kDecayMeaning},
  };
};

absl::StatusOr<NativeRule> SpamRule(const SpamOptions& options, const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_SPAM_H_
