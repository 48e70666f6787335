#ifndef MOONRING_TRAINER_RULES_NORM_GROWTH_H_
#define MOONRING_TRAINER_RULES_NORM_GROWTH_H_

// Fira's norm-growth limiter (Chen et al. 2024, arXiv 2410.01623, equation 9): an update's norm is
// 1.01 times the last one's at most.
//
//   x <- x / max(||x|| / (last + 1e-8), 1.01) * 1.01        last <- ||x||
//
// The first one is as it is.

#include <ATen/core/Tensor.h>

namespace moonring::trainer {

// `last`: a scalar that is kept.
at::Tensor LimitNormGrowth(const at::Tensor& update, const at::Tensor& last, bool first);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_NORM_GROWTH_H_
