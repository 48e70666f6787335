#include "trainer/rules/conda.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "base/status/status_macros.h"
#include "trainer/rules/matrices.h"
#include "trainer/rules/projection.h"
#include "trainer/rules/with_adam.h"

namespace moonring::trainer {
namespace {

Projection BasisOf(const at::Tensor& weight) {
  return Projection(ProjectionType::kStd, std::min(weight.size(0), weight.size(1)), weight.sizes());
}

}  // namespace

absl::StatusOr<NativeRule> CondaRule(const CondaOptions& options,
                                     const base::Parameters& parameters) {
  RETURN_IF_ERROR(CheckFields("conda", options));
  MatrixRule rule;
  rule.state = [](size_t, const at::Tensor& weight) {
    UpdateRule::State state = AdamState(weight);
    BasisOf(weight).AddTo(state, weight);
    return state;
  };
  rule.update = [options](size_t, const at::Tensor& weight, const at::Tensor& gradient,
                          UpdateRule::State& state, double lr, int64_t step) {
    const AdamOptions& adam = options.adam;
    const Projection basis = BasisOf(weight);
    at::Tensor &mean = state.at("exp_avg"), &square = state.at("exp_avg_sq");
    mean.mul_(adam.beta1).add_(gradient, 1.0 - adam.beta1);
    if ((step - 1) % options.gap == 0) basis.FromSvd(mean, state);
    const at::Tensor g = basis.Down(state, gradient);
    square.mul_(adam.beta2).addcmul_(g, g, 1.0 - adam.beta2);
    const at::Tensor direction = basis.Down(state, mean) / square.sqrt().add_(adam.epsilon);
    weight.sub_(basis.Up(state, direction), lr * AdamCorrection(adam, step) * options.scale);
  };
  return WithAdam(std::move(rule), LinearMaps(parameters, options.targets), options.adam,
                  DecayOfEach(parameters, options.weight_decay), DecayTime::kAfter);
}

}  // namespace moonring::trainer
