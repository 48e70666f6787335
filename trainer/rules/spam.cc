#include "trainer/rules/spam.h"

#include <cmath>
#include <numbers>

#include <ATen/ATen.h>

#include "comm/status/status_macros.h"

namespace moonring::trainer {
namespace {

double WarmupAt(const SpamOptions& options, int64_t step) {
  const int64_t since = step % options.reset;
  if (step < options.reset || since >= options.warmup) return 1.0;
  const double angle =
      std::numbers::pi * static_cast<double>(since) / static_cast<double>(options.warmup + 1);
  return 1.0 - 0.99 * (1.0 + std::cos(angle)) / 2.0;
}

}  // namespace

absl::StatusOr<NativeRule> SpamRule(const SpamOptions& options,
                                    const comm::Parameters& parameters) {
  RETURN_IF_ERROR(CheckPart("spam", "beta1", options.beta1));
  RETURN_IF_ERROR(CheckPart("spam", "beta2", options.beta2));
  RETURN_IF_ERROR(CheckNotNegative("spam", "epsilon", options.epsilon));
  RETURN_IF_ERROR(CheckNotNegative("spam", "threshold", options.threshold));
  RETURN_IF_ERROR(CheckPositive("spam", "reset", static_cast<double>(options.reset)));
  RETURN_IF_ERROR(CheckNotNegative("spam", "warmup", static_cast<double>(options.warmup)));
  RETURN_IF_ERROR(CheckNotNegative("spam", "quiet", static_cast<double>(options.quiet)));
  RETURN_IF_ERROR(CheckNotNegative("spam", "weight_decay", options.weight_decay));
  NativeRule native;
  native.rule.state = [](size_t, const at::Tensor& weight) -> UpdateRule::State {
    return {{"exp_avg", at::zeros_like(weight)}, {"exp_avg_sq", at::zeros_like(weight)}};
  };
  native.rule.update = [options, decays = DecayOfEach(parameters, options.weight_decay)](
                           size_t index, const at::Tensor& weight, const at::Tensor& gradient,
                           UpdateRule::State state, double lr, int64_t step) {
    at::Tensor &mean = state.at("exp_avg"), &square = state.at("exp_avg_sq");
    const int64_t since = step % options.reset;
    if (since == 0) {
      mean.zero_();
      square.zero_();
    }
    at::Tensor g = gradient;
    if (options.threshold != 0.0 && since >= options.quiet) {
      const at::Tensor most = square * options.threshold;
      g = at::where(gradient * gradient > most, gradient.sign() * most.sqrt(), gradient);
    }
    mean.mul_(options.beta1).add_(g, 1.0 - options.beta1);
    square.mul_(options.beta2).addcmul_(g, g, 1.0 - options.beta2);
    const double t = static_cast<double>(step);
    const double rate = lr * WarmupAt(options, step) * std::sqrt(1.0 - std::pow(options.beta2, t)) /
                        (1.0 - std::pow(options.beta1, t));
    weight.addcdiv_(mean, square.sqrt().add_(options.epsilon), -rate);
    if (decays[index] != 0.0) weight.mul_(1.0 - lr * decays[index]);
    return state;
  };
  return native;
}

}  // namespace moonring::trainer
