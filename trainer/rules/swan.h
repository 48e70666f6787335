#ifndef MOONRING_TRAINER_RULES_SWAN_H_
#define MOONRING_TRAINER_RULES_SWAN_H_

// SWAN, SGD with whitening and normalization (Ma et al. 2024, arXiv 2412.13148): a matrix is
// updated by its gradient alone, without moments. For the gradient G [O, I] of a weight w:
//
//   N = (G - mean) / s          by rows: the row's mean, and s = sqrt(mean of (G - mean)^2); a
//                               constant row gives zeros
//   D = (N N^T)^(-1/2) N        = U V^T of the SVD of N; for a tall matrix from N^T, same result
//   w <- w (1 - lr decay)       w <- w - lr alpha ||N|| / ||D|| D        ||N|| = sqrt(O I)
//
// The inverse root is approximated by `iterations` steps from A = N / ||N||, transposed if it is
// tall:
//
//   X = A:   X <- beta (3 X - X X^T X)        D = X, transposed back if it is tall
//
// The paper defines N, D, the scale and alpha, and computes the root by a coupled iteration from Y
// = A A^T, Z = I: Y <- beta Y (3 - Z Y), Z <- beta (3 - Z Y) Z, D = Z A. Transcriptions of its
// algorithm use beta 0.8 and 10 steps. This implementation differs from them:
//
//   X         is Z A of the coupled iteration, the same in exact arithmetic. Rounding gives Y
//             eigenvalues below 0 where the exact ones are 0: the rows of N sum to 0, so a square
//             or tall matrix always has one. The coupled iteration amplifies them (64 x 64 in fp64:
//             within 30 steps at 0.8).
//   beta 0.5  Newton-Schulz iteration. It maps p = x^2 of a singular value x to beta^2 p (3 - p)^2,
//             which has the fixed point p = 1 only at 0.5. At 0.8 the fixed point is 1.75 instead,
//             and it is unstable (slope -1.8): x varies between 0.56 and 1.6 however many steps
//             there are, and the error of D stays at 25 to 30 % (random G). Above sqrt(3) / 2 it
//             diverges.
//   20 steps  Small x grow by 1.5 per step. Error of D for random G, with 10 and with 20 steps:
//             64 x 128 5e-4, 1e-15; 192 x 576 4e-3, 1e-15; 64 x 64 0.14, 1e-13; 576 x 576 0.31,
//             0.03.
//
// Computed in the gradient's dtype. In a stack of matrices [E, O, I], each matrix is processed
// separately. Embeddings, heads and non-matrices use Adam (adam.h), with weight decay before the
// step.
//
// Parameters that one rank processes unsharded: matrices. State: none for a matrix; for other
// weights m and v, 8 bytes. Cost per matrix: 4 iterations s^2 l operations, with s and l its
// smaller and larger side.

#include <cstdint>
#include <tuple>

#include "absl/status/statusor.h"
#include "base/text/fields.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

struct SwanOptions {
  double alpha = 0.05;
  int64_t iterations = 20;
  double beta = 0.5;
  AdamOptions adam;  // for weights that are not matrices
  double weight_decay = 0.0;

  static constexpr std::tuple kFields = {
      base::Field{"alpha", &SwanOptions::alpha, base::Range::kNotNegative,
                  "factor of the learning rate"},
      base::Field{"ns_steps", &SwanOptions::iterations, base::Range::kPositive,
                  "number of iterations that whiten the gradient"},
      base::Field{"ns_beta", &SwanOptions::beta,
                  "step size of these iterations, at most 0.866; they converge for 0.5"},
      base::Field{"adam", &SwanOptions::adam},
      base::Field{"weight_decay", &SwanOptions::weight_decay, base::Range::kNotNegative,
                  kDecayMeaning},
  };
};

absl::StatusOr<NativeRule> SwanRule(const SwanOptions& options, const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_SWAN_H_
