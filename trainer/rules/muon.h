#ifndef MOONRING_TRAINER_RULES_MUON_H_
#define MOONRING_TRAINER_RULES_MUON_H_

// Muon (Jordan et al. 2024): a matrix's mean of gradients is made orthogonal. Of a matrix [O, I],
// in two forms:
//
//   kTorch          torch.optim.Muon of torch 2.11:   b <- mu b + (1 - mu) g
//                   u = (1 - mu) g + mu b (nesterov) or b;       X = u / max(||u||, 1e-7)
//   kLlamaFactory   the class behind LLaMA-Factory's use_muon:   b <- mu b + g
//                   u = g + mu b (nesterov) or b;                X = u / (||u|| + 1e-7)
//
//   of a tall matrix X is transposed;  `iterations` times:  A = X X^T,  X <- a X + (b A + c A A) X
//   w <- w (1 - lr decay)        w <- w - lr scale X
//
//   kOriginal        scale = sqrt(max(1, O / I))
//   kMatchRmsAdamW   scale = 0.2 sqrt(max(O, I)) (Liu et al. 2025, arXiv 2502.16982): a step as
//                    large as AdamW's, so that its rates serve
//
// The iteration (Newton-Schulz, of fifth degree) brings singular values near 1, not to 1. It runs
// in bf16, as both have it, in fp64 runs too: its result has some 3 digits. With bf16 false it runs
// in the gradient's dtype. The two forms differ by rounding alone then, but for the 1e-7.
//
// A stack of matrices [E, O, I] is taken matrix by matrix. Embeddings, heads and what is no matrix
// learn by Adam (adam.h), their weight decay before it. No decay for biases and norms, unlike
// LLaMA-Factory's.
//
// Whole: matrices. State: b, 4 bytes a parameter; m and v of the others, 8 bytes. Cost of a matrix:
// iterations (4 O I s + 2 s^3) operations, s the smaller side.

#include <array>

#include "absl/status/statusor.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

enum class MuonForm { kTorch, kLlamaFactory };
enum class MuonScale { kOriginal, kMatchRmsAdamW };

struct MuonOptions {
  MuonForm form = MuonForm::kTorch;
  MuonScale scale = MuonScale::kOriginal;
  double momentum = 0.95;
  bool nesterov = true;
  int iterations = 5;
  std::array<double, 3> coefficients = {3.4445, -4.7750, 2.0315};
  bool bf16 = true;
  AdamOptions adam;  // of what is no matrix
  double weight_decay = 0.0;
};

absl::StatusOr<NativeRule> MuonRule(const MuonOptions& options, const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_MUON_H_
