#include "trainer/rules/adagrad.h"

#include <ATen/ATen.h>

#include "base/status/status_macros.h"

namespace moonring::trainer {

absl::StatusOr<NativeRule> AdagradRule(const AdagradOptions& options,
                                       const base::Parameters& parameters) {
  RETURN_IF_ERROR(CheckFields("adagrad", options));
  NativeRule native;
  native.rule.state = [initial = options.initial](size_t,
                                                  const at::Tensor& weight) -> UpdateRule::State {
    return {{"sum", at::full_like(weight, initial)}};
  };
  native.rule.update = [options, decays = DecayOfEach(parameters, options.weight_decay)](
                           size_t index, const at::Tensor& weight, const at::Tensor& gradient,
                           UpdateRule::State state, double lr, int64_t step) {
    at::Tensor& sum = state.at("sum");
    const at::Tensor g = decays[index] == 0.0 ? gradient : gradient.add(weight, decays[index]);
    sum.addcmul_(g, g);
    const double rate = lr / (1.0 + static_cast<double>(step - 1) * options.lr_decay);
    weight.addcdiv_(g, sum.sqrt().add_(options.epsilon), -rate);
    return state;
  };
  return native;
}

}  // namespace moonring::trainer
