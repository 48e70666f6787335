#ifndef MOONRING_MODEL_BLOCKS_GROUPED_MLP_H_
#define MOONRING_MODEL_BLOCKS_GROUPED_MLP_H_

// The MLPs of all experts, each applied to the rows assigned to it, as one operator. With Wg, Wu,
// Wd and bg, bu, bd an expert's gate, up and down matrices and biases:
//
//   y = (act(x Wg^T + bg) * (x Wu^T + bu)) Wd^T + bd,   or gated_product.h's clamped product
//
// Either each expert has three matrices, or all experts are stacked in two tensors (ExpertStorage).
// The gradient of a stacked tensor has zeros for experts without rows. On the CPU, experts run in
// parallel on threads, unless one expert has so many rows that the other threads would wait for it.
// The caller must know each expert's number of rows on the CPU (HostOffsets); grouped_stacks.h does
// not need that.
//
// Shapes: N rows, D features, I hidden features of an expert, E experts. Cost: 6 N D I flops in the
// forward and 12 N D I in the backward. N (D + 2 I) numbers are kept for the backward, which needs
// as many more while it runs.

#include <vector>

#include <ATen/core/Tensor.h>

#include "base/autograd/custom_function.h"
#include "model/blocks/layers.h"
#include "model/blocks/projection.h"
#include "model/blocks/router.h"
#include "model/config/config.h"

namespace moonring::model {

// `weights` are Wg, Wu, Wd of expert 0, then of expert 1, and so on; `sums` accumulate their
// gradients, in the same order. Weights of an expert without rows may be empty. If all Wu are
// undefined the MLPs have no gate: y = act(x Wg^T) Wd^T.
at::Tensor GroupedMlp(const at::Tensor& x_ND, const ExpertOffsets& begin, Activation activation,
                      const base::Tensors& weights, const std::vector<WeightSum>& sums);

// gate_up and down are a layer's two stacked tensors, stored as the rule says; their biases are [E,
// 2 I] and [E, D], or undefined.
at::Tensor StackedMlp(const at::Tensor& x_ND, const ExpertOffsets& begin, const ExpertRule& rule,
                      Activation activation, const Projection& gate_up, const Projection& down);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_GROUPED_MLP_H_
