#include "trainer/rules/badam_ratio.h"

#include <cmath>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "absl/strings/match.h"
#include "base/status/status_macros.h"

namespace moonring::trainer {
namespace {

int64_t BadamPartOf(const at::Tensor& weight, double ratio) {
  return static_cast<int64_t>(static_cast<double>(weight.numel()) * ratio);
}

// Indices of the elements of the flattened weight that are trained in a turn, int64 [m].
at::Tensor BadamPlacesOf(const BadamRatioOptions& options, size_t index, const at::Tensor& weight,
                         int64_t turn) {
  const int64_t all = weight.numel(), part = BadamPartOf(weight, options.ratio);
  const at::Tensor places = (at::arange(part, at::kLong) + turn * part % all).remainder_(all);
  if (options.mask == BadamMask::kAdjacent) return places.to(weight.device());
  const at::Generator random =
      at::detail::createCPUGenerator(static_cast<uint64_t>(options.seed) + index);
  return at::randperm(all, random, at::kLong).index_select(0, places).to(weight.device());
}

}  // namespace

absl::StatusOr<NativeRule> BadamRatioRule(const BadamRatioOptions& options,
                                          const base::Parameters& parameters) {
  RETURN_IF_ERROR(CheckFields("badam_ratio", options));
  if (!(options.ratio > 1e-6 && options.ratio <= 1.0)) {
    return absl::InvalidArgumentError(absl::StrCat("trainer.badam_ratio: ratio is ", options.ratio,
                                                   ", expected more than 1e-6, 1 at most"));
  }
  RETURN_IF_ERROR(
      CheckRange("badam_ratio", "turn", base::Range::kPositive, static_cast<double>(options.turn)));
  NativeRule native;
  native.whole.assign(parameters.size(), true);
  std::vector<bool> learns;
  for (const auto& parameter : parameters) {
    learns.push_back(!absl::StrContains(parameter->name(), "embed") &&
                     !absl::StrContains(parameter->name(), "lm_head"));
  }
  native.rule.state = [ratio = options.ratio, learns](size_t index, const at::Tensor& weight) {
    if (!learns[index]) return UpdateRule::State();
    const int64_t part = BadamPartOf(weight, ratio);
    return UpdateRule::State{{"exp_avg", at::zeros({part}, weight.options())},
                             {"exp_avg_sq", at::zeros({part}, weight.options())}};
  };
  native.rule.update = [options, learns](size_t index, const at::Tensor& weight,
                                         const at::Tensor& gradient, UpdateRule::State state,
                                         double lr, int64_t step) {
    if (!learns[index] || BadamPartOf(weight, options.ratio) == 0) return state;
    const int64_t turn = (step - 1) / options.turn;
    const double t = static_cast<double>(step - turn * options.turn);
    at::Tensor &mean = state.at("exp_avg"), &square = state.at("exp_avg_sq");
    if (t == 1.0) {
      mean.zero_();
      square.zero_();
    }
    const at::Tensor places = BadamPlacesOf(options, index, weight, turn);
    const at::Tensor g = gradient.reshape({-1}).index_select(0, places);
    mean.lerp_(g, 1.0 - options.beta1);
    square.lerp_(g * g, 1.0 - options.beta2);
    const double rate =
        lr * std::sqrt(1.0 - std::pow(options.beta2, t)) / (1.0 - std::pow(options.beta1, t));
    weight.view({-1}).index_add_(0, places, mean / square.sqrt().add_(options.epsilon), -rate);
    return state;
  };
  return native;
}

}  // namespace moonring::trainer
