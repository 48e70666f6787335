#include "trainer/rules/native_rule.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "trainer/optimizer/weight_decay.h"

namespace moonring::trainer {
namespace {

absl::Status Check(bool good, const char* rule, const char* name, double value,
                   const char* wanted) {
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("trainer.", rule, ": ", name, " is ", value, ", expected ", wanted));
}

}  // namespace

std::vector<double> DecayOfEach(const base::Parameters& parameters, double decay) {
  std::vector<double> decays;
  for (const auto& parameter : parameters)
    decays.push_back(DecaysWeight(parameter->name()) ? decay : 0.0);
  return decays;
}

absl::Status CheckPart(const char* rule, const char* name, double value) {
  return Check(value >= 0.0 && value < 1.0, rule, name, value, "0 or more and less than 1");
}

absl::Status CheckPositive(const char* rule, const char* name, double value) {
  return Check(value > 0.0, rule, name, value, "more than 0");
}

absl::Status CheckNotNegative(const char* rule, const char* name, double value) {
  return Check(value >= 0.0, rule, name, value, "0 or more");
}

}  // namespace moonring::trainer
