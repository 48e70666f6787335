#ifndef MOONRING_TRAINER_RULES_GALORE_H_
#define MOONRING_TRAINER_RULES_GALORE_H_

// GaLore (Zhao et al. 2024, arXiv 2403.03507, algorithm 2) with Adam, equal to galore-torch 1.0's
// GaLoreAdamW: Adam in the space of the first singular vectors of a matrix's gradient, which are
// recomputed every `gap` steps while the moments are kept unchanged (step t = 1, 2, ..; w: the
// weight [m, n], G: its gradient; low() and back() project to that space, of rank r, and back,
// projection.h; `correction` is Adam's bias correction, adam.h).
//
//   L, R from the SVD of G if (t - 1) mod gap = 0 (projection.h)
//   d = Adam's direction of low(G) (adam.h)
//   w <- w - lr correction scale back(d)        w <- w (1 - lr decay)
//
// Applies to the matrices of linear maps (matrices.h); other weights use Adam.
//
// Parameters that one rank processes unsharded: these matrices. State of a matrix: L or R, and m
// and v of low(G): 4 (min(m, n) + 2 max(m, n)) r bytes with the projection std. Cost: an SVD of G
// every `gap` steps.

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

struct GaloreOptions {
  int64_t rank = 16;
  int64_t gap = 200;
  double scale = 2.0;
  ProjectionType type = ProjectionType::kStd;
  std::vector<std::string> targets;
  AdamOptions adam;
  double weight_decay = 0.0;

  static constexpr std::tuple kFields = {
      base::Field{"rank", &GaloreOptions::rank, base::Range::kPositive},
      base::Field{"gap", &GaloreOptions::gap, base::Range::kPositive,
                  "steps between updates of the projection"},
      base::Field{"scale", &GaloreOptions::scale},
      base::Field{"projection", &GaloreOptions::type,
                  "side of the gradient matrix that is projected"},
      base::Field{"targets", &GaloreOptions::targets, kTargetsMeaning},
      base::Field{"adam", &GaloreOptions::adam},
      base::Field{"weight_decay", &GaloreOptions::weight_decay, base::Range::kNotNegative,
                  kDecayMeaning},
  };
};

absl::StatusOr<NativeRule> GaloreRule(const GaloreOptions& options,
                                      const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_GALORE_H_
