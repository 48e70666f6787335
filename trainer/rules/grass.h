#ifndef MOONRING_TRAINER_RULES_GRASS_H_
#define MOONRING_TRAINER_RULES_GRASS_H_

// Grass (Muhamed et al. 2024, arXiv 2406.17660) with Adam: GaLore with a sparse projection to r
// rows of the gradient instead of a dense one (step t = 1, 2, .., c = (t - 1) mod gap). For the
// gradient G [m, n] of a weight w, m < n (otherwise transposed: columns, as std of projection.h):
//
//   c = 0: new rows j_1 .. j_r and factors f_1 .. f_r, Adam's m = v = 0
//     kTop           the rows of the largest ||G_j||, f = 1
//     kMultinomial   r rows drawn with replacement, with q_j = ||G_j||^2 / ||G||^2, and
//                    f = 1 / sqrt(r q_j): the expectation of P P^T is the
//                    identity, and its variance is minimal
//   P^T G: row k is f_k G_(j_k)  [r, n]
//   d = Adam's direction of P^T G (adam.h)
//   w <- w - lr correction(c + 1) alpha P d        w <- w (1 - lr decay)
//     P d: f_k d_k in row j_k, summed for a row that was drawn more than once
//
// The moments are reset because the old moments belong to other rows. Draws depend on (seed, name,
// number of the projection) and on the norms, so they are the same on every rank and after
// resuming.
//
// Applies to the matrices of linear maps (matrices.h); other weights use Adam.
//
// Parameters that one rank processes unsharded: these matrices. State of a matrix: m and v, 8 r
// max(m, n) bytes, and r row numbers (8 bytes each), with kMultinomial also r factors. Cost: the
// norms of all rows every `gap` steps; other steps take O(r max(m, n)), without matrix products.

#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "base/text/fields.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/matrices.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

enum class GrassSampling { kTop, kMultinomial };
constexpr auto WordsOf(GrassSampling) {
  return std::to_array<base::Word<GrassSampling>>(
      {{"top", GrassSampling::kTop}, {"multinomial", GrassSampling::kMultinomial}});
}

struct GrassOptions {
  int64_t rank = 16;  // at most the smaller side
  int64_t gap = 200;
  double alpha = 1.0;
  GrassSampling sampling = GrassSampling::kTop;
  std::vector<std::string> targets;
  AdamOptions adam;
  double weight_decay = 0.0;
  int64_t seed = 0;

  static constexpr std::tuple kFields = {
      base::Field{"rank", &GrassOptions::rank, base::Range::kPositive,
                  "rows selected by the projection"},
      base::Field{"gap", &GrassOptions::gap, base::Range::kPositive,
                  "steps between updates of the projection"},
      base::Field{"alpha", &GrassOptions::alpha},
      base::Field{"sampling", &GrassOptions::sampling, "how rows are selected by their norms"},
      base::Field{"targets", &GrassOptions::targets, kTargetsMeaning},
      base::Field{"adam", &GrassOptions::adam},
      base::Field{"weight_decay", &GrassOptions::weight_decay, base::Range::kNotNegative,
                  kDecayMeaning},
      base::Field{"seed", &GrassOptions::seed, "seed of the sampling"},
  };
};

absl::StatusOr<NativeRule> GrassRule(const GrassOptions& options,
                                     const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_GRASS_H_
