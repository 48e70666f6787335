#ifndef MOONRING_TRAINER_RULES_CONDA_H_
#define MOONRING_TRAINER_RULES_CONDA_H_

// Conda, column-normalized Adam (Wang et al. 2025, arXiv 2509.24218, algorithm 1), equal to the
// authors' code: Adam in the basis of the singular vectors of its first moment m, with full rank:
// the smaller side of the matrix (step t = 1, 2, ..; w: the weight, g: its gradient; low() and
// back() project to that basis and back, projection.h; `correction` is Adam's bias correction,
// adam.h):
//
//   m <- b1 m + (1 - b1) g
//   L or R from the SVD of m if (t - 1) mod gap = 0 (projection.h, std)
//   v <- b2 v + (1 - b2) low(g)^2
//   w <- w - lr correction scale back(low(m) / (sqrt(v) + eps))        w <- w (1 - lr decay)
//
// Applies to the matrices of linear maps (matrices.h); other weights use Adam (adam.h).
//
// Parameters that one rank processes unsharded: these matrices. State of a matrix: m, v and L or R,
// 8 m n + 4 min(m, n)^2 bytes.

#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "base/text/fields.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/matrices.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

struct CondaOptions {
  int64_t gap = 2000;
  double scale = 1.0;
  std::vector<std::string> targets;
  AdamOptions adam;
  double weight_decay = 0.0;

  static constexpr std::tuple kFields = {
      base::Field{"gap", &CondaOptions::gap, base::Range::kPositive,
                  "steps between updates of the basis"},
      base::Field{"scale", &CondaOptions::scale},
      base::Field{"targets", &CondaOptions::targets, kTargetsMeaning},
      base::Field{"adam", &CondaOptions::adam},
      base::Field{"weight_decay", &CondaOptions::weight_decay, base::Range::kNotNegative,
                  kDecayMeaning},
  };
};

absl::StatusOr<NativeRule> CondaRule(const CondaOptions& options,
                                     const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_CONDA_H_
