#ifndef MOONRING_TRAINER_RULES_SCHEDULE_FREE_H_
#define MOONRING_TRAINER_RULES_SCHEDULE_FREE_H_

// Schedule-free learning (Defazio, Yang, Mehta et al. 2024, arXiv 2405.15682, algorithm 1), equal
// to the package schedulefree. Gradients are computed at y, the weight during training; z is
// updated by plain steps of the base optimizer; x, a weighted average of all z, is evaluated and
// saved (step t = 1, ..):
//
//   kAdamW   v <- b2 v + (1 - b2) g^2        u = g / (sqrt(v / (1 - b2^t)) + eps) + decay y
//   kSgd     u = g + decay y
//   kRAdam   as kAdamW with the rate r(t) lr if the variance is tractable (rho(t) > 4, Liu et al.
//            2020, arXiv 1908.03265); before that, u = g + decay y and a rate of 0
//
//   c = a(t) / (a(1) + .. + a(t)),  a(t) = t^r max(rates so far)^p
//   y <- (1 - c) y + c z + rate (b1 (1 - c) - 1) u        z <- z - rate u
//
//   x = y + (1 - 1 / b1) (z - y)        and back:  y = x + (1 - b1) (z - x)
//
// The rate is lr, times t / warmup_steps in the first `warmup_steps` steps (not for kRAdam). x is
// not stored: switching from y to x and back rounds twice.
//
// State: z, and v except for kSgd, in the gradient's dtype, 4 bytes per element each; three scalars
// per weight on the host.

#include <cstdint>

#include "absl/status/statusor.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

enum class ScheduleFreeKind { kAdamW, kSgd, kRAdam };

struct ScheduleFreeOptions {
  ScheduleFreeKind kind = ScheduleFreeKind::kAdamW;
  double beta1 = 0.9;  // for kSgd its momentum; must be above 0
  double beta2 = 0.999;
  double epsilon = 1e-8;
  int64_t warmup_steps = 0;
  double r = 0.0;
  double weight_lr_power = 2.0;  // p
  double weight_decay = 0.0;
};

absl::StatusOr<NativeRule> ScheduleFreeRule(const ScheduleFreeOptions& options,
                                            const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_SCHEDULE_FREE_H_
