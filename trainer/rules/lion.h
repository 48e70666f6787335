#ifndef MOONRING_TRAINER_RULES_LION_H_
#define MOONRING_TRAINER_RULES_LION_H_

// Lion (Chen et al. 2023, arXiv 2302.06675, algorithm 2), with decoupled weight decay (w: weight,
// g: gradient, m: its running mean, b1 and b2: the betas):
//
//   w <- w (1 - lr decay)        w <- w - lr sign(b1 m + (1 - b1) g)        m <- b2 m + (1 - b2) g
//
// State: m, in the gradient's dtype, 4 bytes per element.

#include <tuple>

#include "absl/status/statusor.h"
#include "base/text/fields.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

struct LionOptions {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0.0;

  static constexpr std::tuple kFields = {
      base::Field{"beta1", &LionOptions::beta1, base::Range::kFraction},
      base::Field{"beta2", &LionOptions::beta2, base::Range::kFraction},
      base::Field{"weight_decay", &LionOptions::weight_decay, base::Range::kNotNegative,
                  kDecayMeaning},
  };
};

absl::StatusOr<NativeRule> LionRule(const LionOptions& options, const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_LION_H_
