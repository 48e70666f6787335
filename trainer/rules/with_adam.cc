#include "trainer/rules/with_adam.h"

#include <utility>

#include <ATen/ATen.h>

namespace moonring::trainer {

NativeRule WithAdam(MatrixRule rule, std::vector<bool> matrices, const AdamOptions& adam,
                    std::vector<double> decays, DecayTime decay_time) {
  NativeRule native;
  native.rule.state = [matrices, state = std::move(rule.state)](size_t index,
                                                                const at::Tensor& weight) {
    return matrices[index] ? state(index, weight) : AdamState(weight);
  };
  native.rule.update = [matrices, adam, decay_time, decays = std::move(decays),
                        update = std::move(rule.update)](
                           size_t index, const at::Tensor& weight, const at::Tensor& gradient,
                           UpdateRule::State state, double lr, int64_t step) {
    if (decay_time == DecayTime::kBefore) Decay(weight, lr, decays[index]);
    if (matrices[index]) {
      update(index, weight, gradient, state, lr, step);
    } else {
      AdamStep(adam, weight, gradient, state, lr, step);
    }
    if (decay_time == DecayTime::kAfter) Decay(weight, lr, decays[index]);
    return state;
  };
  native.whole = std::move(matrices);
  return native;
}

}  // namespace moonring::trainer
