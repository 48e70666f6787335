#include "trainer/rules/norm_growth.h"

#include <ATen/ATen.h>

namespace moonring::trainer {

at::Tensor LimitNormGrowth(const at::Tensor& update, const at::Tensor& last, bool first) {
  constexpr double kMost = 1.01, kEpsilon = 1e-8;
  const at::Tensor norm = at::linalg_vector_norm(update);
  if (first) {
    last.copy_(norm);
    return update;
  }
  const at::Tensor over = (norm / (last + kEpsilon)).clamp_min_(kMost).div_(kMost);
  last.copy_(norm / over);
  return update / over;
}

}  // namespace moonring::trainer
