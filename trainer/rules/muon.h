#ifndef MOONRING_TRAINER_RULES_MUON_H_
#define MOONRING_TRAINER_RULES_MUON_H_

// Muon (Jordan et al. 2024): orthogonalizes a matrix's mean of gradients. For a matrix w [O, I]
// with the gradient g and its running mean b, in two forms:
//
//   kTorch          torch.optim.Muon of torch 2.11:   b <- mu b + (1 - mu) g
//                   u = (1 - mu) g + mu b (nesterov) or b;       X = u / max(||u||, 1e-7)
//   kLlamaFactory   the class behind LLaMA-Factory's use_muon:   b <- mu b + g
//                   u = g + mu b (nesterov) or b;                X = u / (||u|| + 1e-7)
//
//   X is transposed if it is tall;  `iterations` times:  A = X X^T,  X <- a X + (b A + c A A) X
//   w <- w (1 - lr decay)        w <- w - lr scale X
//
//   kOriginal        scale = sqrt(max(1, O / I))
//   kMatchRmsAdamW   scale = 0.2 sqrt(max(O, I)) (Liu et al. 2025, arXiv 2502.16982): steps are as
//                    large as AdamW's, so that AdamW's learning rates can be used
//
// The iteration (Newton-Schulz, of fifth degree, with constants a, b and c; this b is not the mean)
// brings singular values near 1, not exactly to 1. The iteration runs in bf16, as in both reference
// implementations, even in fp64 runs, and its result has about 3 significant digits. With bf16
// false, it runs in the gradient's dtype; the two forms then differ only by rounding and by the
// 1e-7.
//
// In a stack of matrices [E, O, I], each matrix is processed separately. Embeddings, heads and
// non-matrices use Adam (adam.h), with weight decay before the step. Biases and norms are not
// decayed, unlike in LLaMA-Factory.
//
// Parameters that one rank processes unsharded: matrices. State: b, 4 bytes per element; for other
// weights m and v, 8 bytes. Cost per matrix: iterations (4 O I s + 2 s^3) operations, with s the
// smaller side.

#include <array>
#include <tuple>

#include "absl/status/statusor.h"
#include "base/text/fields.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

enum class MuonForm { kTorch, kLlamaFactory };
constexpr auto WordsOf(MuonForm) {
  return std::to_array<base::Word<MuonForm>>(
      {{"torch", MuonForm::kTorch}, {"llamafactory", MuonForm::kLlamaFactory}});
}
enum class MuonScale { kOriginal, kMatchRmsAdamW };
constexpr auto WordsOf(MuonScale) {
  return std::to_array<base::Word<MuonScale>>(
      {{"original", MuonScale::kOriginal}, {"match_rms_adamw", MuonScale::kMatchRmsAdamW}});
}

struct MuonOptions {
  MuonForm form = MuonForm::kTorch;
  MuonScale scale = MuonScale::kOriginal;
  double momentum = 0.95;
  bool nesterov = true;
  int iterations = 5;
  std::array<double, 3> coefficients = {3.4445, -4.7750, 2.0315};
  bool bf16 = true;
  AdamOptions adam;  // for weights that are not matrices
  double weight_decay = 0.0;

  static constexpr std::tuple kFields = {
      base::Field{"form", &MuonOptions::form, "the implementation that is followed"},
      base::Field{"scale", &MuonOptions::scale, "how the update is scaled"},
      base::Field{"momentum", &MuonOptions::momentum, base::Range::kFraction},
      base::Field{"nesterov", &MuonOptions::nesterov},
      base::Field{"iterations", &MuonOptions::iterations, base::Range::kPositive,
                  "Newton-Schulz iterations"},
      base::Field{"bf16", &MuonOptions::bf16,
                  "whether the Newton-Schulz iterations are computed in bf16; false: in the "
                  "gradient's dtype"},
      base::Field{"adam", &MuonOptions::adam},
      base::Field{"weight_decay", &MuonOptions::weight_decay, base::Range::kNotNegative,
                  kDecayMeaning},
  };
};

absl::StatusOr<NativeRule> MuonRule(const MuonOptions& options, const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_MUON_H_
