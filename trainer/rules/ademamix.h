#ifndef MOONRING_TRAINER_RULES_ADEMAMIX_H_
#define MOONRING_TRAINER_RULES_ADEMAMIX_H_

// AdEMAMix (Pagliardini, Ablin, Grangier 2024, arXiv 2409.03137, algorithm 1): AdamW with a second,
// slow mean n of gradients (w: weight, g: gradient, m and v: AdamW's moments, b1 and b2: its betas,
// step t = 1, 2, ...):
//
//   w <- w (1 - lr decay)
//   m <- b1 m + (1 - b1) g        n <- b3(t) n + (1 - b3(t)) g        v <- b2 v + (1 - b2) g^2
//   w <- w - lr (m / (1 - b1^t) + alpha(t) n) / (sqrt(v) / sqrt(1 - b2^t) + eps)
//
// alpha(t) = alpha min(t / t_alpha, 1); b3(t) rises from b1 to b3 so that its half-life is linear
// in t, until t_beta3:  exp(ln b1 ln b3 / ((1 - s) ln b3 + s ln b1)),  s = t / t_beta3, at most b3.
// If t_alpha or t_beta3 is 0, alpha or b3 is constant.
//
// State: m, n and v, in the gradient's dtype, 12 bytes per element.

#include <cstdint>
#include <tuple>

#include "absl/status/statusor.h"
#include "base/text/fields.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

struct AdemamixOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double beta3 = 0.9999;
  double alpha = 5.0;
  int64_t t_alpha = 0, t_beta3 = 0;  // steps; 0: no warm-up of alpha or b3
  double epsilon = 1e-8;
  double weight_decay = 0.0;

  static constexpr std::tuple kFields = {
      base::Field{"beta1", &AdemamixOptions::beta1, base::Range::kFraction},
      base::Field{"beta2", &AdemamixOptions::beta2, base::Range::kFraction},
      base::Field{"beta3", &AdemamixOptions::beta3, base::Range::kFraction,
                  "decay rate of the slow running mean"},
      base::Field{"alpha", &AdemamixOptions::alpha, base::Range::kNotNegative,
                  "weight of the slow running mean in the update"},
      base::Field{"t_alpha", &AdemamixOptions::t_alpha, base::Range::kNotNegative,
                  "steps over which alpha is warmed up"},
      base::Field{"t_beta3", &AdemamixOptions::t_beta3, base::Range::kNotNegative,
                  "steps over which beta3 is warmed up"},
      base::Field{"epsilon", &AdemamixOptions::epsilon, base::Range::kNotNegative},
      base::Field{"weight_decay", &AdemamixOptions::weight_decay, base::Range::kNotNegative,
                  kDecayMeaning},
  };
};

absl::StatusOr<NativeRule> AdemamixRule(const AdemamixOptions& options,
                                        const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_ADEMAMIX_H_
