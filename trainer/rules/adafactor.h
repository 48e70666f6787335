#ifndef MOONRING_TRAINER_RULES_ADAFACTOR_H_
#define MOONRING_TRAINER_RULES_ADAFACTOR_H_

// Adafactor (Shazeer, Stern 2018, arXiv 1804.04235): second moments are stored as means of rows and
// of columns. Two forms (w: weight, g: gradient, u: update; r, c: the means; step t = 1, 2, ..; b =
// 1 - t^-decay):
//
//   kTransformers   Transformers' Adafactor with the Trainer's settings (scale_parameter and
//                   relative_step off); eps = 1e-30
//     s = g^2 + eps;   r <- b r + (1 - b) mean of s over columns;   c: over rows
//     u = g / sqrt(r c^T / mean(r));   for a vector  v <- b v + (1 - b) s,  u = g / sqrt(v)
//     u <- u / max(1, rms(u) / clip);   w <- w (1 - lr decay);   w <- w - lr u
//
//   kTorch          torch.optim.Adafactor of torch 2.11; eps is the machine epsilon of the gradient
//     the same r, c, v with s = g^2;   u = g / sqrt(max(v, eps^2)), v = r c^T / max(mean(r), eps)
//     w <- w (1 - lr decay)
//     w <- w - max(1e-3, rms(w)) min(lr, 1 / sqrt(t)) u / max(1, rms(u) / clip)
//
// rms(w) is computed from the weight before its decay. A tensor with more than two dims is factored
// over its last two dims, and clipped as a whole.
//
// Parameters that one rank processes unsharded: all. State: r and c of a matrix, which are small; v
// of a vector, 4 bytes per element.

#include <array>
#include <tuple>

#include "absl/status/statusor.h"
#include "base/text/fields.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

enum class AdafactorForm { kTransformers, kTorch };
constexpr auto WordsOf(AdafactorForm) {
  return std::to_array<base::Word<AdafactorForm>>(
      {{"transformers", AdafactorForm::kTransformers}, {"torch", AdafactorForm::kTorch}});
}

struct AdafactorOptions {
  AdafactorForm form = AdafactorForm::kTransformers;
  double decay_rate = 0.8;
  double clip = 1.0;
  double weight_decay = 0.0;

  static constexpr std::tuple kFields = {
      base::Field{"form", &AdafactorOptions::form, "whose implementation is followed"},
      base::Field{"decay_rate", &AdafactorOptions::decay_rate, base::Range::kNotNegative},
      base::Field{"clip", &AdafactorOptions::clip, base::Range::kPositive,
                  "bound of the update's root mean square"},
      base::Field{"weight_decay", &AdafactorOptions::weight_decay, base::Range::kNotNegative,
                  kDecayMeaning},
  };
};

absl::StatusOr<NativeRule> AdafactorRule(const AdafactorOptions& options,
                                         const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_ADAFACTOR_H_
