#include "trainer/rules/schedule_free.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "base/status/status_macros.h"

namespace moonring::trainer {
namespace {

// The rate of a step, and whether gradients are divided by the root of their second moment.
struct Rate {
  double rate;
  bool divides;
};

Rate RateAt(const ScheduleFreeOptions& options, double lr, int64_t step) {
  const double t = static_cast<double>(step);
  if (options.kind != ScheduleFreeKind::kRAdam) {
    const double warmup =
        step <= options.warmup_steps ? t / static_cast<double>(options.warmup_steps) : 1.0;
    return {lr * warmup, options.kind == ScheduleFreeKind::kAdamW};
  }
  const double power = std::pow(options.beta2, t), whole = 2.0 / (1.0 - options.beta2) - 1.0,
               rho = whole - 2.0 * t * power / (1.0 - power);
  if (rho <= 4.0) return {0.0, false};
  return {lr * std::sqrt((rho - 4.0) * (rho - 2.0) * whole / ((whole - 4.0) * (whole - 2.0) * rho)),
          true};
}

double& Number(UpdateRule::State& state, const char* name) {
  return *state.at(name).data_ptr<double>();
}

UpdateRule::State NewState(const ScheduleFreeOptions& options, const at::Tensor& weight) {
  const auto number = [&] {
    // The scalar is on the host, where reading it needs no synchronization; on "meta" if the weight
    // is.
    return at::zeros(
        {}, at::TensorOptions().dtype(at::kDouble).device(weight.is_meta() ? at::kMeta : at::kCPU));
  };
  UpdateRule::State state = {
      {"z", weight.clone()}, {"largest_rate", number()}, {"sum", number()}, {"averaged", number()}};
  if (options.kind != ScheduleFreeKind::kSgd) state["exp_avg_sq"] = at::zeros_like(weight);
  return state;
}

}  // namespace

absl::StatusOr<NativeRule> ScheduleFreeRule(const ScheduleFreeOptions& options,
                                            const base::Parameters& parameters) {
  RETURN_IF_ERROR(CheckFields("schedule_free", options));
  RETURN_IF_ERROR(CheckRange("schedule_free", "beta1", base::Range::kPositive, options.beta1));
  NativeRule native;
  native.rule.state = [options](size_t, const at::Tensor& weight) {
    return NewState(options, weight);
  };
  native.rule.update = [options, decays = DecayOfEach(parameters, options.weight_decay)](
                           size_t index, const at::Tensor& y, const at::Tensor& gradient,
                           UpdateRule::State state, double lr, int64_t step) {
    TORCH_CHECK(Number(state, "averaged") == 0.0,
                "schedule_free: a step of weights that hold their average");
    const double t = static_cast<double>(step);
    const auto [rate, divides] = RateAt(options, lr, step);
    double &largest = Number(state, "largest_rate"), &sum = Number(state, "sum");
    largest = std::max(largest, rate);
    const double share = std::pow(t, options.r) * std::pow(largest, options.weight_lr_power);
    sum += share;
    const double c = sum == 0.0 ? 0.0 : share / sum;
    at::Tensor u = gradient;
    if (options.kind != ScheduleFreeKind::kSgd) {
      at::Tensor& square = state.at("exp_avg_sq");
      square.mul_(options.beta2).addcmul_(gradient, gradient, 1.0 - options.beta2);
      if (divides) {
        u = gradient / square.div(1.0 - std::pow(options.beta2, t)).sqrt_().add_(options.epsilon);
      }
    }
    if (decays[index] != 0.0) u = u.add(y, decays[index]);
    at::Tensor& z = state.at("z");
    y.lerp_(z, c).add_(u, rate * (options.beta1 * (1.0 - c) - 1.0));
    z.sub_(u, rate);
    return state;
  };
  native.rule.turn = [beta1 = options.beta1](size_t, const at::Tensor& weight,
                                             UpdateRule::State& state, bool average) {
    double& averaged = Number(state, "averaged");
    if ((averaged != 0.0) == average) return false;
    weight.lerp_(state.at("z"), average ? 1.0 - 1.0 / beta1 : 1.0 - beta1);
    averaged = average ? 1.0 : 0.0;
    return true;
  };
  return native;
}

}  // namespace moonring::trainer
