#include "trainer/rules/adam.h"

#include <cmath>

#include <ATen/ATen.h>

#include "base/status/status_macros.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

UpdateRule::State AdamState(const at::Tensor& like) {
  return {{"exp_avg", at::zeros_like(like)}, {"exp_avg_sq", at::zeros_like(like)}};
}

at::Tensor AdamDirection(const AdamOptions& options, const at::Tensor& gradient,
                         UpdateRule::State& state) {
  at::Tensor &mean = state.at("exp_avg"), &square = state.at("exp_avg_sq");
  mean.mul_(options.beta1).add_(gradient, 1.0 - options.beta1);
  square.mul_(options.beta2).addcmul_(gradient, gradient, 1.0 - options.beta2);
  return mean / square.sqrt().add_(options.epsilon);
}

double AdamCorrection(const AdamOptions& options, int64_t step) {
  const double t = static_cast<double>(step);
  return std::sqrt(1.0 - std::pow(options.beta2, t)) / (1.0 - std::pow(options.beta1, t));
}

void AdamStep(const AdamOptions& options, const at::Tensor& weight, const at::Tensor& gradient,
              UpdateRule::State& state, double lr, int64_t step) {
  weight.sub_(AdamDirection(options, gradient, state), lr * AdamCorrection(options, step));
}

void Decay(const at::Tensor& weight, double lr, double decay) {
  if (decay != 0.0) weight.mul_(1.0 - lr * decay);
}

}  // namespace moonring::trainer
