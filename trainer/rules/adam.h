#ifndef MOONRING_TRAINER_RULES_ADAM_H_
#define MOONRING_TRAINER_RULES_ADAM_H_

// Adam's terms, for optimizers that use Adam for some weights or in a low-rank space (w: weight, g:
// gradient, m and v: its moments, b1 and b2: the betas, step t = 1, 2, ..):
//
//   m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g^2
//   direction = m / (sqrt(v) + eps)        correction = sqrt(1 - b2^t) / (1 - b1^t)
//   w <- w - lr correction direction
//
// eps is added to the root before bias correction, as in Transformers' former AdamW, from which
// galore-torch, apollo-torch and Muon's Adam are derived. torch.optim.AdamW adds it after bias
// correction (only the effective eps differs).

#include <cstdint>
#include <tuple>

#include "absl/status/status.h"
#include "base/text/fields.h"
#include "trainer/optimizer/rule_optimizer.h"

namespace moonring::trainer {

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;

  static constexpr std::tuple kFields = {
      base::Field{"beta1", &AdamOptions::beta1, base::Range::kFraction},
      base::Field{"beta2", &AdamOptions::beta2, base::Range::kFraction},
      base::Field{"epsilon", &AdamOptions::epsilon, base::Range::kNotNegative},
  };
};

// exp_avg (m) and exp_avg_sq (v): zeros of the shape and dtype of `like`, 8 bytes per element.
UpdateRule::State AdamState(const at::Tensor& like);

// Updates m and v in `state` and returns the direction.
at::Tensor AdamDirection(const AdamOptions& options, const at::Tensor& gradient,
                         UpdateRule::State& state);

double AdamCorrection(const AdamOptions& options, int64_t step);

// The whole step except weight decay.
void AdamStep(const AdamOptions& options, const at::Tensor& weight, const at::Tensor& gradient,
              UpdateRule::State& state, double lr, int64_t step);

// w <- w (1 - lr decay)
void Decay(const at::Tensor& weight, double lr, double decay);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_ADAM_H_
