#ifndef MOONRING_TRAINER_RULES_RMSPROP_H_
#define MOONRING_TRAINER_RULES_RMSPROP_H_

// RMSprop (Hinton's lecture 6e of 2012), equal to torch.optim.RMSprop. Weight decay is added to the
// gradient (L2). w: weight, g: gradient:
//
//   g <- g + decay w        v <- alpha v + (1 - alpha) g^2
//   centered: a <- alpha a + (1 - alpha) g, and v is replaced by v - a^2 below
//   u = g / (sqrt(v) + eps)
//   w <- w - lr u           with momentum: m <- momentum m + u, and u is replaced by m
//
// State: v, and a or m if used, in the gradient's dtype, 4 bytes per element each.

#include <tuple>

#include "absl/status/statusor.h"
#include "base/text/fields.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

struct RmspropOptions {
  double alpha = 0.99;
  double epsilon = 1e-8;
  double momentum = 0.0;
  bool centered = false;
  double weight_decay = 0.0;

  static constexpr std::tuple kFields = {
      base::Field{"alpha", &RmspropOptions::alpha, base::Range::kFraction,
                  "decay rate of the running mean of squares"},
      base::Field{"epsilon", &RmspropOptions::epsilon, base::Range::kNotNegative},
      base::Field{"momentum", &RmspropOptions::momentum, base::Range::kNotNegative},
      base::Field{"centered", &RmspropOptions::centered,
                  "whether the square of a running mean of the gradient is subtracted from the "
                  "mean of squares"},
      base::Field{"weight_decay", &RmspropOptions::weight_decay, base::Range::kNotNegative,
                  kDecayMeaning},
  };
};

absl::StatusOr<NativeRule> RmspropRule(const RmspropOptions& options,
                                       const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_RMSPROP_H_
