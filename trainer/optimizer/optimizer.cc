#include "trainer/optimizer/optimizer.h"

#include "absl/strings/str_cat.h"

namespace moonring::trainer {

absl::Status Optimizer::StepWith(double /*lr*/, const StepSettings& settings) {
  std::string given;
  base::ForEachField(settings, [&](const auto& field, const std::optional<double>& value) {
    if (value.has_value()) absl::StrAppend(&given, given.empty() ? "" : ", ", field.name);
  });
  return absl::InvalidArgumentError(absl::StrCat(
      "Optimizer:step: ", given.empty() ? "a table of settings" : given,
      " was given for one step, which only an optimizer of trainer.adamw accepts; give this "
      "optimizer its settings when it is created"));
}

}  // namespace moonring::trainer
