#include "trainer/rules/spam.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "kernels/random/counter_random.h"
#include "trainer/rules/matrices.h"

namespace moonring::trainer {
namespace {

double WarmupAt(const SpamOptions& options, int64_t step) {
  const int64_t since = step % options.reset;
  if (step < options.reset || since >= options.warmup) return 1.0;
  const double angle =
      std::numbers::pi * static_cast<double>(since) / static_cast<double>(options.warmup + 1);
  return 1.0 - 0.99 * (1.0 + std::cos(angle)) / 2.0;
}

int64_t SpamPartOf(const at::Tensor& weight, double density) {
  const double part = std::round(static_cast<double>(weight.numel()) * density);
  return std::max<int64_t>(1, static_cast<int64_t>(part));
}

// Indices of the elements of the flattened weight that are trained after reset `number`, ascending:
// int64 [m].
at::Tensor SpamPlacesOf(const SpamOptions& options, const std::string& name, int64_t number,
                        const at::Tensor& weight) {
  constexpr int64_t kWidth = 1024;  // numbers drawn at a time
  const int64_t all = weight.numel(), part = SpamPartOf(weight, options.density);
  const at::Tensor runs = at::arange((all + kWidth - 1) / kWidth,
                                     at::TensorOptions().dtype(at::kLong).device(weight.device()));
  const uint64_t key =
      kernels::CounterKey(static_cast<uint64_t>(options.seed), static_cast<uint64_t>(number),
                          absl::StrCat(name, "/mask"));
  const at::Tensor uniform =
      kernels::CounterUniform(key, runs, kWidth).reshape({-1}).narrow(0, 0, all);
  const at::Tensor last = std::get<0>(uniform.kthvalue(part));
  at::Tensor chosen = uniform.lt(last);
  // Of elements whose random number equals the largest chosen one, the first are chosen.
  const at::Tensor equal = uniform.eq(last).nonzero().reshape({-1});
  chosen.index_fill_(0, equal.narrow(0, 0, part - chosen.sum().item<int64_t>()), true);
  return chosen.nonzero().reshape({-1});
}

// An Adam step (spam.h) for a tensor of which every element is trained.
void StepNumbers(const SpamOptions& options, const at::Tensor& weight, const at::Tensor& gradient,
                 UpdateRule::State& state, double lr, double decay, int64_t step) {
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
  if (decay != 0.0) weight.mul_(1.0 - lr * decay);
}

}  // namespace

absl::StatusOr<NativeRule> SpamRule(const SpamOptions& options,
                                    const base::Parameters& parameters) {
  RETURN_IF_ERROR(CheckFields("spam", options));
  if (!(options.density > 0.0 && options.density <= 1.0)) {
    return absl::InvalidArgumentError(absl::StrCat("trainer.spam: density is ", options.density,
                                                   ", expected more than 0, 1 at most"));
  }
  std::vector<std::string> names;
  for (const auto& parameter : parameters) names.push_back(parameter->name());
  NativeRule native;
  if (options.density < 1.0) native.whole = MatricesAndStacks(parameters);
  std::vector<bool> sparse = native.whole;
  sparse.resize(parameters.size(), false);
  native.rule.state = [options, sparse](size_t index,
                                        const at::Tensor& weight) -> UpdateRule::State {
    const at::Tensor like =
        sparse[index] ? at::empty({SpamPartOf(weight, options.density)}, weight.options()) : weight;
    return {{"exp_avg", at::zeros_like(like)}, {"exp_avg_sq", at::zeros_like(like)}};
  };
  native.rule.update = [options, sparse, names,
                        decays = DecayOfEach(parameters, options.weight_decay)](
                           size_t index, const at::Tensor& weight, const at::Tensor& gradient,
                           UpdateRule::State state, double lr, int64_t step) {
    if (!sparse[index]) {
      StepNumbers(options, weight, gradient, state, lr, decays[index], step);
      return state;
    }
    const at::Tensor places = SpamPlacesOf(options, names[index], step / options.reset, weight);
    const at::Tensor all = weight.view({-1}), learning = all.index_select(0, places);
    StepNumbers(options, learning, gradient.reshape({-1}).index_select(0, places), state, lr,
                decays[index], step);
    all.index_copy_(0, places, learning);
    return state;
  };
  return native;
}

}  // namespace moonring::trainer
