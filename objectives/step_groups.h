#ifndef MOONRING_OBJECTIVES_STEP_GROUPS_H_
#define MOONRING_OBJECTIVES_STEP_GROUPS_H_

// The groups of a step: group k is its examples [k G, (k+1) G) in the step's order; the last may be
// shorter. Some losses depend on other examples too (KTO's KL, BCO's baseline). They do so through
// one number per group, which does not depend on the ranks and micro-batches that process the
// examples.

#include <algorithm>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::objectives {

class StepGroups {
 public:
  StepGroups() = default;  // before any step
  // `size`: G. Throws where size < 1.
  StepGroups(int64_t examples, int64_t size);

  int64_t count() const { return (examples_ + size_ - 1) / size_; }
  int64_t begin(int64_t group) const { return group * size_; }
  int64_t examples(int64_t group) const { return std::min(size_, examples_ - begin(group)); }

  // Gives each example the value of its group. `numbers`: one value per group. Returns fp64
  // [places], on `like`'s device. `places`: the examples' indices in the step. Throws on an index
  // outside the step.
  at::Tensor Spread(const std::vector<double>& numbers, const std::vector<int64_t>& places,
                    const at::Tensor& like) const;

 private:
  int64_t examples_ = 0, size_ = 1;
};

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_STEP_GROUPS_H_
