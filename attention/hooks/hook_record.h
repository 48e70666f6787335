#ifndef MOONRING_ATTENTION_HOOKS_HOOK_RECORD_H_
#define MOONRING_ATTENTION_HOOKS_HOOK_RECORD_H_

// Checks on the results of hooks (attention_hooks.h), which run again in the backward.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "attention/hooks/attention_hooks.h"

namespace moonring::attention {

// Compares what the hooks of one layer return in the forward and in its recomputation, by sums. One
// object belongs to one forward of one layer. Different sums mean that a function is not pure, for
// example because it draws random numbers. Small differences remain undetected.
class HookRecord {
 public:
  // The layer's forward begins, for the first time or again.
  void Begin() { next_ = 0; }
  // A hook returned `result`. Throws a c10::ValueError if the sums differ from those of the first
  // time.
  void Note(const char* hook, int64_t layer, const at::Tensor& result);

 private:
  std::vector<std::pair<double, double>> sums_;
  size_t next_ = 0;
};

// Throws a c10::ValueError if the autograd graph of `result`, returned by a hook, contains a leaf
// that is not reached through `inputs`. The gradient of such a tensor would be lost, because a
// layer's backward ends at the layer's inputs.
void CheckGraph(const char* hook, int64_t layer, const at::Tensor& result,
                const std::vector<at::Tensor>& inputs);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_HOOKS_HOOK_RECORD_H_
