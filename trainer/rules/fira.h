#ifndef MOONRING_TRAINER_RULES_FIRA_H_
#define MOONRING_TRAINER_RULES_FIRA_H_

// Fira (Chen et al. 2024, arXiv 2410.01623, equations 6 to 9), equal to the authors' FiraAdamW:
// GaLore, plus the component of the gradient G outside the low-rank subspace, scaled by the ratio
// of Adam's direction to the gradient inside (step t = 1, 2, ..; w: the weight; low() and back()
// project to the subspace, of rank r, and back, projection.h; `correction` is Adam's bias
// correction, adam.h):
//
//   L or R from the SVD of G if (t - 1) mod gap = 0 (projection.h)
//   low = low(G),   d = Adam's direction of low (adam.h)
//   f = ||d|| / (||low|| + 1e-8) over the dim of size r
//   x = f (G - alpha back(low)), with limited growth of its norm (norm_growth.h)
//   w <- w - lr correction (alpha back(d) + x)        w <- w (1 - lr decay)
//
// Applies to the matrices of linear maps (matrices.h); other weights use Adam.
//
// Parameters that one rank processes unsharded: these matrices. State of a matrix: that of GaLore
// (galore.h), and a norm.

#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "base/text/fields.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/matrices.h"
#include "trainer/rules/native_rule.h"
#include "trainer/rules/projection.h"

namespace moonring::trainer {

struct FiraOptions {
  int64_t rank = 16;
  int64_t gap = 200;
  double alpha = 1.0;
  ProjectionType type = ProjectionType::kStd;  // not kFull
  std::vector<std::string> targets;
  AdamOptions adam;
  double weight_decay = 0.0;

  static constexpr std::tuple kFields = {
      base::Field{"rank", &FiraOptions::rank, base::Range::kPositive},
      base::Field{"gap", &FiraOptions::gap, base::Range::kPositive,
                  "steps between updates of the projection"},
      base::Field{"alpha", &FiraOptions::alpha},
      base::Field{"projection", &FiraOptions::type,
                  "side of the gradient matrix that is projected; not full"},
      base::Field{"targets", &FiraOptions::targets, kTargetsMeaning},
      base::Field{"adam", &FiraOptions::adam},
      base::Field{"weight_decay", &FiraOptions::weight_decay, base::Range::kNotNegative,
                  kDecayMeaning},
  };
};

absl::StatusOr<NativeRule> FiraRule(const FiraOptions& options, const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_FIRA_H_
