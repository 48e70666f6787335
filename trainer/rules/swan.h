#ifndef MOONRING_TRAINER_RULES_SWAN_H_
#define MOONRING_TRAINER_RULES_SWAN_H_

// SWAN, SGD with whitening and normalization (Ma et al. 2024, arXiv 2412.13148): a matrix learns by
// its gradient alone, of which no mean is kept. Of G [O, I]:
//
//   N = (G - mean) / s          of each row: its mean, and the root of its mean (G - mean)^2; a row
//                               that is constant gives zeros
//   D = (N N^T)^(-1/2) N        U V^T of the SVD of N; of a tall matrix by N^T, the same matrix
//   w <- w (1 - lr decay)       w <- w - lr alpha ||N|| / ||D|| D        ||N|| = sqrt(O I)
//
// The root is that of `iterations` steps from A = N / ||N||, of a tall matrix transposed:
//
//   X = A:   X <- beta (3 X - X X^T X)        D = X, of a tall matrix transposed
//
// From the paper: N, D, the scale, alpha, and the root by a coupled iteration from Y = A A^T, Z =
// I: Y <- beta Y (3 - Z Y), Z <- beta (3 - Z Y) Z, D = Z A. From transcriptions of its algorithm:
// beta 0.8 and 10 steps. Ours:
//
//   X         is Z A of the coupled iteration, the same in exact arithmetic. Rounding gives Y
//             eigenvalues below 0 where N has none: the rows of N sum to 0, so that of a square or
//             tall matrix there always is one; the coupled iteration blows them up (of 64 x 64 in
//             fp64 within 30 steps at 0.8).
//   beta 0.5  Newton-Schulz proper. It takes p = x^2 of a singular value x to beta^2 p (3 - p)^2,
//             which keeps p = 1 at 0.5 alone. At 0.8 it has 1.75 in that place, and is thrown off
//             it (slope -1.8): x wanders within 0.56 and 1.6 however many steps there are, and D
//             stays 25 to 30 % off (random G). Above sqrt(3) / 2 it grows without bound.
//   20 steps  Small x grow by 1.5 a step. D of random G is off by, with 10 and with 20:
//             64 x 128 5e-4, 1e-15; 192 x 576 4e-3, 1e-15; 64 x 64 0.14, 1e-13; 576 x 576 0.31,
//             0.03.
//
// In the gradient's dtype. A stack of matrices [E, O, I] is taken matrix by matrix. Embeddings,
// heads and what is no matrix learn by Adam (adam.h), their weight decay before it.
//
// Whole: matrices. State: none of a matrix; m and v of the others, 8 bytes. Cost of a matrix:
// 4 iterations s^2 l operations, s and l its smaller and larger side.

#include <cstdint>

#include "absl/status/statusor.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

struct SwanOptions {
  double alpha = 0.05;
  int64_t iterations = 20;
  double beta = 0.5;
  AdamOptions adam;  // of what is no matrix
  double weight_decay = 0.0;
};

absl::StatusOr<NativeRule> SwanRule(const SwanOptions& options, const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_SWAN_H_
