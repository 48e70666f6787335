#include "trainer/rules/rmsprop.h"

#include <ATen/ATen.h>

#include "base/status/status_macros.h"

namespace moonring::trainer {

absl::StatusOr<NativeRule> RmspropRule(const RmspropOptions& options,
                                       const base::Parameters& parameters) {
  RETURN_IF_ERROR(CheckFields("rmsprop", options));
  NativeRule native;
  native.rule.state = [options](size_t, const at::Tensor& weight) {
    UpdateRule::State state = {{"square_avg", at::zeros_like(weight)}};
    if (options.centered) state["grad_avg"] = at::zeros_like(weight);
    if (options.momentum != 0.0) state["momentum"] = at::zeros_like(weight);
    return state;
  };
  native.rule.update = [options, decays = DecayOfEach(parameters, options.weight_decay)](
                           size_t index, const at::Tensor& weight, const at::Tensor& gradient,
                           UpdateRule::State state, double lr, int64_t) {
    const at::Tensor g = decays[index] == 0.0 ? gradient : gradient.add(weight, decays[index]);
    at::Tensor& square = state.at("square_avg");
    square.mul_(options.alpha).addcmul_(g, g, 1.0 - options.alpha);
    at::Tensor spread = square;
    if (options.centered) {
      at::Tensor& mean = state.at("grad_avg");
      mean.lerp_(g, 1.0 - options.alpha);
      spread = square.addcmul(mean, mean, -1.0);
    }
    const at::Tensor root = spread.sqrt().add_(options.epsilon);
    if (options.momentum == 0.0) {
      weight.addcdiv_(g, root, -lr);
    } else {
      weight.sub_(state.at("momentum").mul_(options.momentum).addcdiv_(g, root), lr);
    }
    return state;
  };
  return native;
}

}  // namespace moonring::trainer
