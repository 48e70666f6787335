#include "objectives/router_balance.h"

#include <ATen/TensorOperators.h>

namespace moonring::objectives {

at::Tensor RouterWeights(const at::Tensor& chosen_GE, int64_t choices_per_token,
                         double coefficient) {
  TORCH_CHECK(chosen_GE.dim() == 2, "router weights: counts of shape ", chosen_GE.sizes(),
              ", expected [groups, experts]");
  TORCH_CHECK(choices_per_token > 0 && choices_per_token <= chosen_GE.size(1),
              "router weights: ", choices_per_token, " choices of ", chosen_GE.size(1), " experts");
  const at::Tensor counts_GE = chosen_GE.to(at::kDouble);
  const at::Tensor tokens_G1 = counts_GE.sum(1, /*keepdim=*/true)
                                   .div_(static_cast<double>(choices_per_token))
                                   .clamp_min_(1.0);
  return counts_GE * (coefficient * static_cast<double>(chosen_GE.size(1))) / tokens_G1.square();
}

}  // namespace moonring::objectives
