#include "trainer/rules/native_rule.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "trainer/optimizer/weight_decay.h"

namespace moonring::trainer {

std::vector<double> DecayOfEach(const base::Parameters& parameters, double decay) {
  std::vector<double> decays;
  for (const auto& parameter : parameters)
    decays.push_back(DecaysWeight(parameter->name()) ? decay : 0.0);
  return decays;
}

absl::Status CheckRange(const char* rule, const char* name, base::Range range, double value) {
  const char* wanted = nullptr;
  switch (range) {
    case base::Range::kAny:
      break;
    case base::Range::kFraction:
      if (!(value >= 0.0 && value < 1.0)) wanted = "0 or more and less than 1";
      break;
    case base::Range::kPositive:
      if (!(value > 0.0)) wanted = "more than 0";
      break;
    case base::Range::kNotNegative:
      if (!(value >= 0.0)) wanted = "0 or more";
      break;
  }
  if (wanted == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("trainer.", rule, ": ", name, " is ", value, ", expected ", wanted));
}

}  // namespace moonring::trainer
