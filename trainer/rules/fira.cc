#include "trainer/rules/fira.h"

#include <utility>

#include <ATen/ATen.h>

#include "base/status/status_macros.h"
#include "trainer/rules/matrices.h"
#include "trainer/rules/norm_growth.h"
#include "trainer/rules/with_adam.h"

namespace moonring::trainer {

absl::StatusOr<NativeRule> FiraRule(const FiraOptions& options,
                                    const base::Parameters& parameters) {
  RETURN_IF_ERROR(CheckFields("fira", options));
  if (options.type == ProjectionType::kFull)
    return absl::InvalidArgumentError("trainer.fira: type: expected one side");
  MatrixRule rule;
  rule.state = [options](size_t, const at::Tensor& weight) {
    const Projection projection(options.type, options.rank, weight.sizes());
    UpdateRule::State state = AdamState(at::empty(projection.low_shape(), weight.options()));
    projection.AddTo(state, weight);
    state["norm"] = at::zeros({}, weight.options());
    return state;
  };
  rule.update = [options](size_t, const at::Tensor& weight, const at::Tensor& gradient,
                          UpdateRule::State& state, double lr, int64_t step) {
    constexpr double kEpsilon = 1e-8;
    const Projection projection(options.type, options.rank, weight.sizes());
    if ((step - 1) % options.gap == 0) projection.FromSvd(gradient, state);
    const at::Tensor low = projection.Down(state, gradient),
                     direction = AdamDirection(options.adam, low, state);
    const int64_t dim = projection.low_dim();
    const at::Tensor factor = at::linalg_vector_norm(direction, 2, dim, /*keepdim=*/true) /
                              (at::linalg_vector_norm(low, 2, dim, /*keepdim=*/true) + kEpsilon);
    const at::Tensor left_out = gradient.sub(projection.Up(state, low), options.alpha).mul_(factor);
    const at::Tensor limited = LimitNormGrowth(left_out, state.at("norm"), /*first=*/step == 1);
    const at::Tensor update = limited.add(projection.Up(state, direction), options.alpha);
    weight.sub_(update, lr * AdamCorrection(options.adam, step));
  };
  return WithAdam(std::move(rule), LinearMaps(parameters, options.targets), options.adam,
                  DecayOfEach(parameters, options.weight_decay), DecayTime::kAfter);
}

}  // namespace moonring::trainer
