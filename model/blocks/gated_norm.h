#ifndef MOONRING_MODEL_BLOCKS_GATED_NORM_H_
#define MOONRING_MODEL_BLOCKS_GATED_NORM_H_

// A norm followed by a gate (applied to the output of linear attention), and a gate followed by a
// norm (applied to the output of a state space model):
//
//   y = RmsNorm(x; w, eps) s(z),   s(z) = silu(z) or sigmoid(z)
//   y = RmsNorm(x silu(z); w, eps), each of G groups of D / G features by its own mean square
//
// x, z, y [T, D] have one dtype; w [D] is in fp32, or fp64 for fp64, the dtype in which everything
// is computed. Kept for the backward: x, z, w and one number per row (and group).

#include <ATen/core/Tensor.h>

#include "model/config/config.h"

namespace moonring::model {

// Differentiable in x, z and w; throws if shapes do not fit.
at::Tensor GatedRmsNorm(const at::Tensor& x_TD, const at::Tensor& gate_TD,
                        const at::Tensor& weight_D, double eps, NormGate kind = NormGate::kSilu);

at::Tensor NormOfGated(const at::Tensor& x_TD, const at::Tensor& gate_TD,
                       const at::Tensor& weight_D, double eps, int64_t groups);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_GATED_NORM_H_
