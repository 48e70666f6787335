#include "trainer/rules/ademamix.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "base/status/status_macros.h"

namespace moonring::trainer {
namespace {

double AlphaAt(const AdemamixOptions& options, double t) {
  if (options.t_alpha == 0) return options.alpha;
  return options.alpha * std::min(t / static_cast<double>(options.t_alpha), 1.0);
}

double Beta3At(const AdemamixOptions& options, double t) {
  if (options.t_beta3 == 0 || t >= static_cast<double>(options.t_beta3)) return options.beta3;
  const double first = std::log(options.beta1), last = std::log(options.beta3),
               s = t / static_cast<double>(options.t_beta3);
  return std::min(std::exp(first * last / ((1.0 - s) * last + s * first)), options.beta3);
}

}  // namespace

absl::StatusOr<NativeRule> AdemamixRule(const AdemamixOptions& options,
                                        const base::Parameters& parameters) {
  RETURN_IF_ERROR(CheckFields("ademamix", options));
  if (options.t_beta3 > 0)
    RETURN_IF_ERROR(CheckRange("ademamix", "beta1", base::Range::kPositive, options.beta1));
  NativeRule native;
  native.rule.state = [](size_t, const at::Tensor& weight) -> UpdateRule::State {
    return {{"exp_avg", at::zeros_like(weight)},
            {"exp_avg_slow", at::zeros_like(weight)},
            {"exp_avg_sq", at::zeros_like(weight)}};
  };
  native.rule.update = [options, decays = DecayOfEach(parameters, options.weight_decay)](
                           size_t index, const at::Tensor& weight, const at::Tensor& gradient,
                           UpdateRule::State state, double lr, int64_t step) {
    const double t = static_cast<double>(step), beta3 = Beta3At(options, t);
    at::Tensor &mean = state.at("exp_avg"), &slow = state.at("exp_avg_slow"),
               &square = state.at("exp_avg_sq");
    mean.mul_(options.beta1).add_(gradient, 1.0 - options.beta1);
    slow.mul_(beta3).add_(gradient, 1.0 - beta3);
    square.mul_(options.beta2).addcmul_(gradient, gradient, 1.0 - options.beta2);
    if (decays[index] != 0.0) weight.mul_(1.0 - lr * decays[index]);
    const at::Tensor root =
        square.sqrt().div_(std::sqrt(1.0 - std::pow(options.beta2, t))).add_(options.epsilon);
    const at::Tensor step_mean = mean.div(1.0 - std::pow(options.beta1, t));
    weight.addcdiv_(step_mean.add_(slow, AlphaAt(options, t)), root, -lr);
    return state;
  };
  return native;
}

}  // namespace moonring::trainer
