#ifndef MOONRING_TRAINER_RULES_SCHEDULE_FREE_H_
#define MOONRING_TRAINER_RULES_SCHEDULE_FREE_H_

// Schedule-free learning (Defazio, Yang, Mehta et al. 2024, arXiv 2405.15682, algorithm 1), equal
// to the package schedulefree. Gradients g are computed at y, the weight during training; z is
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

#include <array>
#include <cstdint>
#include <tuple>

#include "absl/status/statusor.h"
#include "base/text/fields.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

enum class ScheduleFreeKind { kAdamW, kSgd, kRAdam };
constexpr auto WordsOf(ScheduleFreeKind) {
  return std::to_array<base::Word<ScheduleFreeKind>>({{"adamw", ScheduleFreeKind::kAdamW},
                                                      {"sgd", ScheduleFreeKind::kSgd},
                                                      {"radam", ScheduleFreeKind::kRAdam}});
}

struct ScheduleFreeOptions {
  ScheduleFreeKind kind = ScheduleFreeKind::kAdamW;
  double beta1 = 0.9;  // for kSgd its momentum; must be above 0
  double beta2 = 0.999;
  double epsilon = 1e-8;
  int64_t warmup_steps = 0;
  double r = 0.0;
  double weight_lr_power = 2.0;  // p
  double weight_decay = 0.0;

  static constexpr std::tuple kFields = {
      base::Field{"kind", &ScheduleFreeOptions::kind},
      base::Field{"beta1", &ScheduleFreeOptions::beta1, base::Range::kFraction,
                  "greater than 0; for \"sgd\" its momentum"},
      base::Field{"beta2", &ScheduleFreeOptions::beta2, base::Range::kFraction},
      base::Field{"epsilon", &ScheduleFreeOptions::epsilon, base::Range::kNotNegative},
      base::Field{"warmup_steps", &ScheduleFreeOptions::warmup_steps, base::Range::kNotNegative,
                  "steps of warm-up; not for \"radam\""},
      base::Field{"r", &ScheduleFreeOptions::r,
                  "the weight of a step in the average contains the step number to this power"},
      base::Field{"weight_lr_power", &ScheduleFreeOptions::weight_lr_power,
                  "the weight of a step in the average contains the largest learning rate so far "
                  "to this power"},
      base::Field{"weight_decay", &ScheduleFreeOptions::weight_decay, base::Range::kNotNegative,
                  kDecayMeaning},
  };
};

absl::StatusOr<NativeRule> ScheduleFreeRule(const ScheduleFreeOptions& options,
                                            const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_SCHEDULE_FREE_H_
