#include "trainer/rules/sgd_momentum.h"

#include <ATen/ATen.h>

#include "base/status/status_macros.h"

namespace moonring::trainer {

absl::StatusOr<NativeRule> SgdMomentumRule(const SgdMomentumOptions& options,
                                           const base::Parameters& parameters) {
  RETURN_IF_ERROR(CheckFields("sgd", options));
  if (options.nesterov && options.dampening != 0.0) {
    return absl::InvalidArgumentError("trainer.sgd: nesterov goes with a dampening of 0");
  }
  NativeRule native;
  native.rule.state = [](size_t, const at::Tensor& weight) -> UpdateRule::State {
    return {{"momentum", at::zeros_like(weight)}};
  };
  native.rule.update = [options, decays = DecayOfEach(parameters, options.weight_decay)](
                           size_t index, const at::Tensor& weight, const at::Tensor& gradient,
                           UpdateRule::State state, double lr, int64_t step) {
    at::Tensor& momentum = state.at("momentum");
    const at::Tensor g = decays[index] == 0.0 ? gradient : gradient.add(weight, decays[index]);
    if (step == 1) {
      momentum.copy_(g);
    } else {
      momentum.mul_(options.momentum).add_(g, 1.0 - options.dampening);
    }
    weight.sub_(options.nesterov ? g.add(momentum, options.momentum) : momentum, lr);
    return state;
  };
  return native;
}

}  // namespace moonring::trainer
