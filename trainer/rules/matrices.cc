#include "trainer/rules/matrices.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "trainer/optimizer/weight_decay.h"

namespace moonring::trainer {

bool IsEmbeddingOrHead(absl::string_view name) {
  return absl::StrContains(name, "embed") || absl::StrContains(name, "lm_head") ||
         name == "output.weight";
}

std::vector<bool> MatricesAndStacks(const base::Parameters& parameters) {
  std::vector<bool> matrices;
  for (const auto& parameter : parameters) {
    const std::string& name = parameter->name();
    const size_t dims = parameter->shape().size();
    matrices.push_back((dims == 2 || dims == 3) && !IsEmbeddingOrHead(name) && DecaysWeight(name) &&
                       !absl::StrContains(name, "conv"));
  }
  return matrices;
}

std::vector<bool> LinearMaps(const base::Parameters& parameters,
                             const std::vector<std::string>& targets) {
  std::vector<bool> maps;
  for (const auto& parameter : parameters) {
    absl::string_view module = parameter->name();
    const bool matrix = parameter->shape().size() == 2 && absl::ConsumeSuffix(&module, ".weight") &&
                        !absl::StrContains(module, "embed");
    const bool named = targets.empty() ? !IsEmbeddingOrHead(parameter->name())
                                       : std::any_of(targets.begin(), targets.end(),
                                                     [&](const std::string& target) {
                                                       return absl::StrContains(module, target);
                                                     });
    maps.push_back(matrix && named);
  }
  return maps;
}

}  // namespace moonring::trainer
