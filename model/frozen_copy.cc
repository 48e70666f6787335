#include "model/frozen_copy.h"

#include <map>
#include <optional>
#include <utility>

#include <ATen/core/grad_mode.h>

#include "base/autograd/parameter.h"
#include "base/memory/memory_account.h"
#include "base/status/torch_status.h"
#include "model/expert_parts.h"

namespace moonring::model {
namespace {

using base::Parameter;

std::shared_ptr<Parameter> CopyOf(const Parameter& parameter, const ExpertParts* experts) {
  const at::NoGradGuard no_grad;
  const base::MemoryScope memory(base::MemoryPart::kWeights);
  auto copy = std::make_shared<Parameter>(
      parameter.name(), parameter.LeaseWhole(parameter.dtype()).clone(), /*trainable=*/false);
  if (experts != nullptr) experts->Keep(*copy);
  return copy;
}

}  // namespace

std::shared_ptr<const Adapter> FrozenCopy(const Adapter& adapter) {
  auto copy = std::make_shared<Adapter>(adapter);
  std::map<const Parameter*, std::shared_ptr<Parameter>> copies;
  for (auto& parameter : copy->parameters) {
    std::shared_ptr<Parameter> own = CopyOf(*parameter, nullptr);
    copies.emplace(parameter.get(), own);
    parameter = std::move(own);
  }
  const auto replace = [&](std::shared_ptr<Parameter>& parameter) {
    if (parameter != nullptr) parameter = copies.at(parameter.get());
  };
  for (auto& [module, map] : copy->maps) {
    for (auto* parameter : {&map.a, &map.b, &map.magnitude, &map.skew}) replace(*parameter);
  }
  for (auto& [name, parameter] : copy->saved) replace(parameter);
  return copy;
}

absl::StatusOr<std::unique_ptr<Transformer>> FrozenCopy(const Transformer& model,
                                                        const Transformer* base) {
  if (model.adapter() != nullptr) return Transformer::Adapt(*base, FrozenCopy(*model.adapter()));
  TransformerOptions options = model.options();
  options.frozen = true;
  options.learning.reset();
  std::optional<ExpertParts> experts;
  if (options.expert_ranks != nullptr) experts.emplace(model.config(), *options.expert_ranks);
  base::Parameters parameters;
  absl::Status copied = base::TryTorch([&] {
    for (const auto& parameter : model.parameters()) {
      const bool shared = parameter->away() && !parameter->trainable();
      parameters.push_back(shared ? parameter
                                  : CopyOf(*parameter, experts.has_value() ? &*experts : nullptr));
    }
  });
  if (!copied.ok()) return copied;
  return Transformer::Create(model.config(), std::move(parameters), std::move(options));
}

}  // namespace moonring::model
