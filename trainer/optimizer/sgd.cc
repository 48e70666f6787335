#include "trainer/optimizer/sgd.h"

#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "absl/strings/str_cat.h"
#include "base/memory/memory_account.h"
#include "trainer/optimizer/lora_plus.h"
#include "trainer/optimizer/weight_decay.h"
#include "trainer/sharding/tensor_groups.h"

namespace moonring::trainer {

absl::StatusOr<std::unique_ptr<Sgd>> Sgd::Create(SgdOptions options, base::Parameters parameters) {
  if (!(options.weight_decay >= 0.0)) {
    return absl::InvalidArgumentError(absl::StrCat("trainer.sgd: weight_decay is ",
                                                   options.weight_decay, ", expected 0 or more"));
  }
  if (!(options.loraplus_ratio > 0.0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "trainer.sgd: loraplus_lr_ratio is ", options.loraplus_ratio, ", expected more than 0"));
  }
  return std::unique_ptr<Sgd>(new Sgd(options, std::move(parameters)));
}

void Sgd::Step(double lr) {
  at::NoGradGuard no_grad;
  const base::MemoryScope memory(base::MemoryPart::kOptimizer);
  TensorGroups<2, std::pair<double, double>>
      together;  // weights and gradients, by (rate, factor 1 - rate * decay)
  for (const auto& parameter : parameters_) {
    const at::Tensor& gradient = parameter->gradient();
    if (!parameter->trainable() || !gradient.defined()) continue;
    at::Tensor& weight = parameter->weight();
    base::CountWritten(base::MemoryPart::kWeights, weight);
    TORCH_CHECK(gradient.sizes() == weight.sizes(), "trainer.sgd: ", parameter->name(),
                ": gradient ", gradient.sizes(), ", weight ", weight.sizes());
    const double rate = lr * LoraPlusRate(*parameter, options_.loraplus_ratio);
    const double kept = DecaysWeight(parameter->name()) ? 1.0 - rate * options_.weight_decay : 1.0;
    // all such weights are updated in one call
    if (weight.scalar_type() == gradient.scalar_type()) {
      together.Add({weight, gradient}, {rate, kept});
      continue;
    }
    at::Tensor working = weight.to(gradient.scalar_type());
    if (kept != 1.0) working.mul_(kept);
    working.sub_(gradient, rate);
    weight.copy_(working);
  }
  for (const auto& group : together.groups()) {
    const auto& [weights, gradients] = group.lists;
    if (group.key.second != 1.0) at::_foreach_mul_(weights, group.key.second);
    at::_foreach_add_(weights, gradients, /*alpha=*/-group.key.first);
  }
}

absl::Status Sgd::LoadState(const std::map<std::string, at::Tensor>& state) {
  if (!state.empty())
    return absl::InvalidArgumentError(
        absl::StrCat("trainer.sgd: it has no state, ", state.size(), " tensors came"));
  return absl::OkStatus();
}

}  // namespace moonring::trainer
