#ifndef MOONRING_TRAINER_RULES_GRASS_H_
#define MOONRING_TRAINER_RULES_GRASS_H_

// Grass (Muhamed et al. 2024, arXiv 2406.17660) with Adam: GaLore with a projection of r rows of
// the gradient, in place of a dense one (step t = 1, 2, .., c = (t - 1) mod gap). For G [m, n],
// m < n (else all is transposed: columns, as projection.h's std has it):
//
//   c = 0: rows j_1 .. j_r and factors f_1 .. f_r anew, Adam's m = v = 0
//     kTop           the rows of the largest ||G_j||, f = 1
//     kMultinomial   r rows drawn with replacement, with q_j = ||G_j||^2 / ||G||^2, and
//                    f = 1 / sqrt(r q_j): the mean of P P^T is 1, its variance the least
//   P^T G: row k is f_k G_(j_k)  [r, n]
//   d = Adam's direction of P^T G (adam.h)
//   w <- w - lr correction(c + 1) alpha P d        w <- w (1 - lr decay)
//     P d: f_k d_k in row j_k, the sum of those of a row that was drawn more than once
//
// The means begin anew because the old ones are of other rows. The draws are of (seed, name, number
// of the projection) and of the norms, the same on every rank and after a resume.
//
// The matrices are those of linear maps (matrices.h), the other weights learn by Adam.
//
// Whole: these matrices. State of one: m and v, 8 r max(m, n) bytes, and r rows (8 bytes each),
// with kMultinomial r factors. Cost: the norms each `gap` steps; else O(r max(m, n)), with no
// product of matrices.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

enum class GrassSampling { kTop, kMultinomial };

struct GrassOptions {
  int64_t rank = 16;  // the smaller side at most
  int64_t gap = 200;
  double alpha = 1.0;
  GrassSampling sampling = GrassSampling::kTop;
  std::vector<std::string> targets;  // none: every linear map but the head
  AdamOptions adam;
  double weight_decay = 0.0;
  int64_t seed = 0;
};

absl::StatusOr<NativeRule> GrassRule(const GrassOptions& options,
                                     const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_GRASS_H_
