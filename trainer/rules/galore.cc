#include "trainer/rules/galore.h"

#include <utility>

#include <ATen/ATen.h>

#include "base/status/status_macros.h"
#include "trainer/rules/matrices.h"
#include "trainer/rules/with_adam.h"

namespace moonring::trainer {

absl::StatusOr<NativeRule> GaloreRule(const GaloreOptions& options,
                                      const base::Parameters& parameters) {
  RETURN_IF_ERROR(CheckFields("galore", options));
  MatrixRule rule;
  rule.state = [options](size_t, const at::Tensor& weight) {
    const Projection projection(options.type, options.rank, weight.sizes());
    UpdateRule::State state = AdamState(at::empty(projection.low_shape(), weight.options()));
    projection.AddTo(state, weight);
    return state;
  };
  rule.update = [options](size_t, const at::Tensor& weight, const at::Tensor& gradient,
                          UpdateRule::State& state, double lr, int64_t step) {
    const Projection projection(options.type, options.rank, weight.sizes());
    if ((step - 1) % options.gap == 0) projection.FromSvd(gradient, state);
    const at::Tensor direction =
        AdamDirection(options.adam, projection.Down(state, gradient), state);
    weight.sub_(projection.Up(state, direction),
                lr * AdamCorrection(options.adam, step) * options.scale);
  };
  return WithAdam(std::move(rule), LinearMaps(parameters, options.targets), options.adam,
                  DecayOfEach(parameters, options.weight_decay), DecayTime::kAfter);
}

}  // namespace moonring::trainer
