#include "model/freeze.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status/status_macros.h"
#include "model/config/weights.h"

namespace moonring::model {
namespace {

// Names of a model's modules, taken from its weights' names.
struct Modules {
  std::set<std::string> in_blocks, outside;
};

Modules ModulesOf(const ModelConfig& config) {
  Modules modules;
  for (const WeightShape& weight : WantedWeights(config)) {
    const std::vector<std::string> parts =
        absl::StrSplit(weight.name, '.');  // model.layers.0.mlp.up_proj.weight, model.norm.weight
    const auto layer = std::find_if(parts.begin(), parts.end(), [](const std::string& part) {
      return absl::ascii_isdigit(part[0]);
    });
    if (layer == parts.end()) {
      modules.outside.insert(parts[parts.size() - 2]);
    } else {
      modules.in_blocks.insert(*(layer + 1));
    }
  }
  return modules;
}

absl::Status CheckKnown(absl::string_view key, const std::string& name,
                        const std::set<std::string>& known) {
  if (known.contains(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(key, ": there is no module '", name,
                                                 "', there are ", absl::StrJoin(known, ", ")));
}

}  // namespace

absl::StatusOr<std::set<std::string>> TrainableWeights(const ModelConfig& config,
                                                       const FreezeOptions& options) {
  const Modules known = ModulesOf(config);
  const int64_t count =
      std::min(options.layers < 0 ? -options.layers : options.layers, config.layers);
  const int64_t first = options.layers > 0 ? config.layers - count : 0;
  std::vector<std::string> parts;  // a weight is trainable if its name contains one of them
  for (const std::string& module : options.modules) {
    if (module != "all")
      RETURN_IF_ERROR(CheckKnown("freeze_trainable_modules", module, known.in_blocks));
    for (int64_t layer = first; layer < first + count; ++layer)
      parts.push_back(absl::StrCat(".", layer, ".", module == "all" ? "" : module));
  }
  for (const std::string& module : options.extra) {
    RETURN_IF_ERROR(CheckKnown("freeze_extra_modules", module, known.outside));
    parts.push_back(module);
  }
  std::set<std::string> learning;
  for (const WeightShape& weight : WantedWeights(config)) {
    if (weight.learns && std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
          return absl::StrContains(weight.name, part);
        }))
      learning.insert(weight.name);
  }
  if (learning.empty())
    return absl::InvalidArgumentError(
        "freeze_trainable_layers: 0, and no freeze_extra_modules: no weight would be trainable");
  return learning;
}

}  // namespace moonring::model
