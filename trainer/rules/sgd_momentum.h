#ifndef MOONRING_TRAINER_RULES_SGD_MOMENTUM_H_
#define MOONRING_TRAINER_RULES_SGD_MOMENTUM_H_

// Gradient descent with momentum, equal to torch.optim.SGD. Weight decay is added to the gradient
// (L2), and so enters the momentum m (w: weight, g: gradient):
//
//   g <- g + decay w        m <- g in the first step, then momentum m + (1 - dampening) g
//   w <- w - lr m           with nesterov: w <- w - lr (g + momentum m)
//
// State: m, in the gradient's dtype, 4 bytes per element. For SGD without momentum, see
// trainer/optimizer/sgd.h.

#include <tuple>

#include "absl/status/statusor.h"
#include "base/text/fields.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

struct SgdMomentumOptions {
  double momentum = 0.9;
  double dampening = 0.0;
  bool nesterov = false;  // not allowed with dampening
  double weight_decay = 0.0;

  static constexpr std::tuple kFields = {
      base::Field{"momentum", &SgdMomentumOptions::momentum, base::Range::kPositive},
      base::Field{"dampening", &SgdMomentumOptions::dampening},
      base::Field{"nesterov", &SgdMomentumOptions::nesterov, "not together with dampening"},
      base::Field{"weight_decay", &SgdMomentumOptions::weight_decay, base::Range::kNotNegative,
                  kDecayMeaning},
  };
};

absl::StatusOr<NativeRule> SgdMomentumRule(const SgdMomentumOptions& options,
                                           const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_SGD_MOMENTUM_H_
