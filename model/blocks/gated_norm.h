#ifndef MOONRING_MODEL_BLOCKS_GATED_NORM_H_
#define MOONRING_MODEL_BLOCKS_GATED_NORM_H_

// A norm whose result is gated, as linear attention has it after its rule; and the norm of what is
// gated, as a state space has it:
//
//   y = RmsNorm(x; w, eps) s(z),   s(z) = silu(z) or sigmoid(z)
//   y = RmsNorm(x silu(z); w, eps), each of G groups of D / G features by its own mean square
//
// x, z, y [T, D] in one dtype, w [D] in the wide one, in which all is computed. Kept for the
// backward: x, z, w and a number a row (and group).

#include <ATen/core/Tensor.h>

#include "model/config/config.h"

namespace moonring::model {

// Differentiable in x, z and w; shapes that do not fit throw.
at::Tensor GatedRmsNorm(const at::Tensor& x_TD, const at::Tensor& gate_TD,
                        const at::Tensor& weight_D, double eps, NormGate kind = NormGate::kSilu);

at::Tensor NormOfGated(const at::Tensor& x_TD, const at::Tensor& gate_TD,
                       const at::Tensor& weight_D, double eps, int64_t groups);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_GATED_NORM_H_
