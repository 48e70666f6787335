#include "trainer/rules/lion.h"

#include <ATen/ATen.h>

#include "base/status/status_macros.h"

namespace moonring::trainer {

absl::StatusOr<NativeRule> LionRule(const LionOptions& options,
                                    const base::Parameters& parameters) {
  RETURN_IF_ERROR(CheckFields("lion", options));
  NativeRule native;
  native.rule.state = [](size_t, const at::Tensor& weight) -> UpdateRule::State {
    return {{"exp_avg", at::zeros_like(weight)}};
  };
  native.rule.update = [options, decays = DecayOfEach(parameters, options.weight_decay)](
                           size_t index, const at::Tensor& weight, const at::Tensor& gradient,
                           UpdateRule::State state, double lr, int64_t) {
    at::Tensor& mean = state.at("exp_avg");
    if (decays[index] != 0.0) weight.mul_(1.0 - lr * decays[index]);
    weight.sub_(mean.mul(options.beta1).add_(gradient, 1.0 - options.beta1).sign_(), lr);
    mean.mul_(options.beta2).add_(gradient, 1.0 - options.beta2);
    return state;
  };
  return native;
}

}  // namespace moonring::trainer
