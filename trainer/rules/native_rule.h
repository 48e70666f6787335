#ifndef MOONRING_TRAINER_RULES_NATIVE_RULE_H_
#define MOONRING_TRAINER_RULES_NATIVE_RULE_H_

// The optimizers of this folder: each is a rule (trainer/optimizer/rule_optimizer.h) for a list of
// parameters. Each header has the optimizer's equations and their source, and a function
//
//   absl::StatusOr<NativeRule> XRule(const XOptions&, const base::Parameters&);
//
// The list XOptions::kFields (base/text/fields.h) has the options that a run may set.
//
// The shapes of a rule's state must depend only on the weight's shape, so that `plan` can compute
// them on the "meta" device (NewStateBytes). Random numbers are counter-based (kernels/random),
// keyed by the weight's name and the step: the same on every rank and after resuming. Each header
// also states which parameters one rank processes unsharded; all others are processed in shards.

#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "base/autograd/parameter.h"
#include "base/text/fields.h"
#include "trainer/optimizer/rule_optimizer.h"

namespace moonring::trainer {

struct NativeRule {
  UpdateRule rule;
  std::vector<bool> whole = {};  // one per parameter, as in RuleOptimizerOptions
};

// The weight decay of each parameter: `decay`, or 0 for parameters that are not decayed
// (trainer/optimizer/weight_decay.h).
std::vector<double> DecayOfEach(const base::Parameters& parameters, double decay);

// What the option `weight_decay` means (base/text/fields.h).
inline constexpr char kDecayMeaning[] = "not applied to biases and norms";

// INVALID_ARGUMENT for a value out of its range: "trainer.RULE: NAME is VALUE, expected ..".
absl::Status CheckRange(const char* rule, const char* name, base::Range range, double value);

// CheckRange of each number in the list of `options`.
template <typename RuleOptions>
absl::Status CheckFields(const char* rule, const RuleOptions& options) {
  absl::Status status;
  base::ForEachField(options, [&](const auto& field, const auto& value) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>>) {
      if (status.ok())
        status = CheckRange(rule, field.name, field.range, static_cast<double>(value));
    }
  });
  return status;
}

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_NATIVE_RULE_H_
