#ifndef MOONRING_TRAINER_RULES_NORM_GROWTH_H_
#define MOONRING_TRAINER_RULES_NORM_GROWTH_H_

// Fira's norm-growth limiter (Chen et al. 2024, arXiv 2410.01623, equation 9): limits the norm of
// an update x to 1.01 times that of the previous one (`last`).
//
//   x <- x / max(||x|| / (last + 1e-8), 1.01) * 1.01        last <- ||x||
//
// The first update is unchanged.

#include <ATen/core/Tensor.h>

namespace moonring::trainer {

// `last`: the norm of the previous update, a scalar in the state; this function sets it.
at::Tensor LimitNormGrowth(const at::Tensor& update, const at::Tensor& last, bool first);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_NORM_GROWTH_H_
