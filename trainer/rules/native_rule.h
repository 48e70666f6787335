#ifndef MOONRING_TRAINER_RULES_NATIVE_RULE_H_
#define MOONRING_TRAINER_RULES_NATIVE_RULE_H_

// An optimizer of this folder: its rule (trainer/rule_optimizer.h) over a list of parameters. One
// file an optimizer, which says its equations and where they are from; each gives
//
//   absl::StatusOr<NativeRule> XRule(const XOptions&, const base::Parameters&);
//
// The shapes of a rule's state follow from the weight's alone: so plan can ask it on the "meta"
// device (NewStateBytes). Its random numbers, where it has any,
// are counter-based (kernels/random): keyed by the weight's name and the step, the same on every
// rank and after a resume.

#include <vector>

#include "base/autograd/parameter.h"
#include "trainer/rule_optimizer.h"

namespace moonring::trainer {

struct NativeRule {
  UpdateRule rule;
  std::vector<bool> whole = {};  // of each parameter, as RuleOptimizerOptions has it
};

// The weight decay of each parameter: `decay`, or 0 of those that do not (trainer/weight_decay.h).
std::vector<double> DecayOfEach(const base::Parameters& parameters, double decay);

// INVALID_ARGUMENT: "trainer.RULE: NAME is VALUE, wanted ..".
absl::Status CheckPart(const char* rule, const char* name, double value);      // in [0, 1)
absl::Status CheckPositive(const char* rule, const char* name, double value);  // more than 0
absl::Status CheckNotNegative(const char* rule, const char* name, double value);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_NATIVE_RULE_H_
