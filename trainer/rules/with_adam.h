#ifndef MOONRING_TRAINER_RULES_WITH_ADAM_H_
#define MOONRING_TRAINER_RULES_WITH_ADAM_H_

// A rule of matrices beside Adam: what such optimizers have in common.

#include <functional>
#include <vector>

#include "trainer/rules/adam.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

// Of a matrix, seen whole: what is kept, and its step, weight decay apart. `index` is the
// parameter's.
struct MatrixRule {
  std::function<UpdateRule::State(size_t index, const at::Tensor& weight)> state;
  std::function<void(size_t index, const at::Tensor& weight, const at::Tensor& gradient,
                     UpdateRule::State& state, double lr, int64_t step)>
      update;
};

// When w <- w (1 - lr decay): before a step, as in torch.optim.AdamW, or after it, as Transformers'
// AdamW had it.
enum class DecayTime { kBefore, kAfter };

// The weights of `matrices` (one of each parameter) learn by `rule`, the others by Adam, in shards.
NativeRule WithAdam(MatrixRule rule, std::vector<bool> matrices, const AdamOptions& adam,
                    std::vector<double> decays, DecayTime decay_time);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_WITH_ADAM_H_
