#ifndef MOONRING_TRAINER_RULES_ADAGRAD_H_
#define MOONRING_TRAINER_RULES_ADAGRAD_H_

// Adagrad (Duchi, Hazan, Singer 2011), equal to torch.optim.Adagrad. Weight decay is added to the
// gradient (L2). w: weight, g: gradient, step t = 1, 2, ..:
//
//   g <- g + decay w        s <- s + g^2
//   w <- w - lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps)
//
// State: s, in the gradient's dtype, 4 bytes per element; its initial value is `initial`.

#include <tuple>

#include "absl/status/statusor.h"
#include "base/text/fields.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

struct AdagradOptions {
  double lr_decay = 0.0;
  double initial = 0.0;  // torch's initial_accumulator_value
  double epsilon = 1e-10;
  double weight_decay = 0.0;

  static constexpr std::tuple kFields = {
      base::Field{"lr_decay", &AdagradOptions::lr_decay, base::Range::kNotNegative},
      base::Field{"initial", &AdagradOptions::initial, base::Range::kNotNegative,
                  "initial value of the sum of squares"},
      base::Field{"epsilon", &AdagradOptions::epsilon, base::Range::kNotNegative},
      base::Field{"weight_decay", &AdagradOptions::weight_decay, base::Range::kNotNegative,
                  kDecayMeaning},
  };
};

absl::StatusOr<NativeRule> AdagradRule(const AdagradOptions& options,
                                       const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_ADAGRAD_H_
