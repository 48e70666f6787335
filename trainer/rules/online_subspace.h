#ifndef MOONRING_TRAINER_RULES_ONLINE_SUBSPACE_H_
#define MOONRING_TRAINER_RULES_ONLINE_SUBSPACE_H_

// Online subspace descent (Liang et al. 2024, arXiv 2408.12857, algorithm 1), equal to the authors'
// code with AdamW for both: GaLore with a projection that is trained instead of computed by SVDs
// (step t = 1, 2, ..). For a tall matrix w [m, n] with the gradient G and the projection R [r, n]
// (for a wide matrix everything is transposed, as in `std` of projection.h; `correction` is Adam's
// bias correction, adam.h):
//
//   t = 1: R from the SVD of G
//   d = Adam's direction of low = G R^T (adam.h)
//   w <- w - lr correction scale d R        w <- w (1 - lr decay)
//   t > 1, after that: a step of AdamW on R, with the gradient of
//       || H R^T R - H ||^2,  H = G / ||G||,       2 (A^T E + B^T H), E = H R^T R - H, A = H R^T,
//                                                  B = E R^T
//     betas 0.9 and 0.999, eps 1e-8, weight decay 0.01, and the rate (lr / learning_rate) / gap
//
// Applies to the matrices of linear maps (matrices.h); other weights use Adam.
//
// Parameters that one rank processes unsharded: these matrices. State of a matrix: R or L and its m
// and v, and m and v of `low`: 4 (3 min(m, n) + 2 max(m, n)) r bytes. Cost: 10 m n r operations
// more than GaLore's.

#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "base/text/fields.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/matrices.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

struct OnlineSubspaceOptions {
  int64_t rank = 128;
  double gap = 50.0;  // the authors' update_proj_gap
  double scale = 1.0;
  double learning_rate = 1.0;  // the run's learning rate; lr / this is the schedule's factor
  std::vector<std::string> targets;
  AdamOptions adam;
  double weight_decay = 0.0;

  static constexpr std::tuple kFields = {
      base::Field{"rank", &OnlineSubspaceOptions::rank, base::Range::kPositive},
      base::Field{"gap", &OnlineSubspaceOptions::gap, base::Range::kPositive,
                  "inverse of the projection's learning rate"},
      base::Field{"scale", &OnlineSubspaceOptions::scale},
      base::Field{"learning_rate", &OnlineSubspaceOptions::learning_rate, base::Range::kPositive,
                  "the run's peak learning rate; the projection is updated with "
                  "the learning rate (rate of the step / learning_rate) / gap",
                  base::kRequired},
      base::Field{"targets", &OnlineSubspaceOptions::targets, kTargetsMeaning},
      base::Field{"adam", &OnlineSubspaceOptions::adam},
      base::Field{"weight_decay", &OnlineSubspaceOptions::weight_decay, base::Range::kNotNegative,
                  kDecayMeaning},
  };
};

absl::StatusOr<NativeRule> OnlineSubspaceRule(const OnlineSubspaceOptions& options,
                                              const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_ONLINE_SUBSPACE_H_
