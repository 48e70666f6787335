#ifndef MOONRING_TRAINER_RULES_GALORE_H_
#define MOONRING_TRAINER_RULES_GALORE_H_

// GaLore (Zhao et al. 2024, arXiv 2403.03507, algorithm 2) with Adam, as galore-torch 1.0's
// GaLoreAdamW: Adam of a matrix in the space of its gradient's first singular vectors, which are
// taken anew each `gap` steps; the means stay as they are then (step t = 1, 2, ..).
//
//   L, R from the SVD of G where (t - 1) mod gap = 0 (projection.h)
//   d = Adam's direction of low(G) (adam.h)
//   w <- w - lr correction scale back(d)        w <- w (1 - lr decay)
//
// The matrices are those of linear maps (matrices.h), the other weights learn by Adam.
//
// Whole: these matrices. State of one: L or R, and m and v of `low`: 4 (min(m, n) + 2 max(m, n)) r
// bytes with std. Cost: an SVD of G each `gap` steps.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/native_rule.h"
#include "trainer/rules/projection.h"

namespace moonring::trainer {

struct GaloreOptions {
  int64_t rank = 16;
  int64_t gap = 200;
  double scale = 2.0;
  ProjectionType type = ProjectionType::kStd;
  std::vector<std::string> targets;  // none: every linear map but the head
  AdamOptions adam;
  double weight_decay = 0.0;
};

absl::StatusOr<NativeRule> GaloreRule(const GaloreOptions& options,
                                      const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_GALORE_H_
