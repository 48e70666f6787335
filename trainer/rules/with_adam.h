#ifndef MOONRING_TRAINER_RULES_WITH_ADAM_H_
#define MOONRING_TRAINER_RULES_WITH_ADAM_H_

// Combines a rule for matrices with Adam for all other weights.

#include <functional>
#include <vector>

#include "trainer/rules/adam.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

// The update rule of an unsharded matrix: its initial state, and its step without weight decay.
// `index`: the index of the matrix in the list of parameters.
struct MatrixRule {
  std::function<UpdateRule::State(size_t index, const at::Tensor& weight)> state;
  std::function<void(size_t index, const at::Tensor& weight, const at::Tensor& gradient,
                     UpdateRule::State& state, double lr, int64_t step)>
      update;
};

// When w <- w (1 - lr decay) is applied: before a step, as in torch.optim.AdamW, or after it, as in
// Transformers' former AdamW.
enum class DecayTime { kBefore, kAfter };

// Updates the parameters whose flag in `matrices` is set by `rule`, and all others by Adam, in
// shards.
NativeRule WithAdam(MatrixRule rule, std::vector<bool> matrices, const AdamOptions& adam,
                    std::vector<double> decays, DecayTime decay_time);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_WITH_ADAM_H_
