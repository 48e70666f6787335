#ifndef MOONRING_MODEL_BLOCKS_GROUPED_MLP_H_
#define MOONRING_MODEL_BLOCKS_GROUPED_MLP_H_

// All experts' MLPs, each on its own rows, as one operator:
//
//   y = (act(x Wg^T + bg) * (x Wu^T + bu)) Wd^T + bd,   or gated_product.h's clamped product
//
// Each expert has three matrices, or all experts are stacked in two tensors (ExpertStorage); then
// the gradient is one tensor too, with zeros for experts without rows. On the CPU experts run in
// parallel on threads, unless one has so many rows that the others would wait for it. This function
// needs each expert's number of rows on the host (HostOffsets); grouped_stacks.h does not.
//
// Shapes: N rows, D features, I inside an expert, E experts. Cost: 6 N D I flops forward, 12
// backward; memory N (D + 2 I) kept for the backward, and as much again while it runs.

#include <vector>

#include <ATen/core/Tensor.h>

#include "base/autograd/custom_function.h"
#include "model/blocks/layers.h"
#include "model/blocks/projection.h"
#include "model/blocks/router.h"
#include "model/config/config.h"

namespace moonring::model {

// Weights are Wg, Wu, Wd of expert 0, then of expert 1, ...; `sums` of their gradients in the same
// order. Weights of an expert without rows may be empty. If all Wu are undefined the MLPs have no
// gate: y = act(x Wg^T) Wd^T.
at::Tensor GroupedMlp(const at::Tensor& x_ND, const ExpertOffsets& begin, Activation activation,
                      const base::Tensors& weights, const std::vector<WeightSum>& sums);

// gate_up and down are a layer's two stacked tensors, stored as the rule says; their biases are [E,
// 2 I] and [E, D], or undefined.
at::Tensor StackedMlp(const at::Tensor& x_ND, const ExpertOffsets& begin, const ExpertRule& rule,
                      Activation activation, const Projection& gate_up, const Projection& down);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_GROUPED_MLP_H_
