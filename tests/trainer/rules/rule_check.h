#ifndef MOONRING_TESTS_TRAINER_RULES_RULE_CHECK_H_
#define MOONRING_TESTS_TRAINER_RULES_RULE_CHECK_H_

// Checks every optimizer of trainer/rules with the weights and gradients of golden/inputs.py.

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/rules/native_rule.h"

namespace moonring::testing {

using RuleMaker =
    std::function<absl::StatusOr<trainer::NativeRule>(const base::Parameters& parameters)>;

struct RuleBounds {
  double fp32 = 1e-5, fp64 = 1e-12;  // relative, of the golden weights
  double ranks = 1e-6;               // of one rank's
  bool averages =
      false;  // golden/FILE has under NAME_average what Optimizer::Average puts in place
  bool matrices = false;      // over the weights that inputs.py calls MATRICES
  bool golden_alone = false;  // of a variant of a rule: nothing is asked of several ranks
};

// Checks, in fp32 and fp64, that twenty steps give the weights that golden/FILE has under `name`;
// that several ranks, in every ZeRO stage, give the weights of one rank for the same gradients;
// that a run that is saved and loaded in the middle is bit-identical; and that the state has the
// bytes that NewStateBytes predicts.
void CheckRule(const std::string& file, const std::string& name, const RuleMaker& make,
               const RuleBounds& bounds = {});

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TRAINER_RULES_RULE_CHECK_H_
