#ifndef MOONRING_MODEL_BLOCKS_GROUPED_MLP_H_
#define MOONRING_MODEL_BLOCKS_GROUPED_MLP_H_

// Each expert's own MLP on its rows, all of them as one operator:
//
//   y = (act(x Wg^T + bg) * (x Wu^T + bu)) Wd^T + bd,   or gated_product.h's clamped product
//
// The experts' maps are three matrices each, or lie in two tensors of all (ExpertStorage): then the
// gradient is one tensor too, with zeros for experts without rows. Experts run side by side on the
// CPU's threads, unless one has so many rows that the others would wait for it. Here the host knows
// how many rows each has (HostOffsets); grouped_stacks.h does without.
//
// Shapes: N rows, D features, I inside an expert, E experts. Cost: 6 N D I flops forward, 12
// backward; memory N (D + 2 I) kept for the backward, and as much again at work.

#include <vector>

#include <ATen/core/Tensor.h>

#include "base/autograd/custom_function.h"
#include "model/blocks/layers.h"
#include "model/blocks/projection.h"
#include "model/blocks/router.h"
#include "model/config/config.h"

namespace moonring::model {

// Weights are Wg, Wu, Wd of expert 0, then of 1, ...; `sums` of their gradients alike. Those of an
// expert without rows may be without numbers. Where all Wu are undefined the MLPs have no gate, y =
// act(x Wg^T) Wd^T.
at::Tensor GroupedMlp(const at::Tensor& x_ND, const ExpertOffsets& begin, Activation activation,
                      const base::Tensors& weights, const std::vector<WeightSum>& sums);

// gate_up and down are a layer's two tensors of all experts, stored as the rule says, their biases
// [E, 2 I] and [E, D] or undefined.
at::Tensor StackedMlp(const at::Tensor& x_ND, const ExpertOffsets& begin, const ExpertRule& rule,
                      Activation activation, const Projection& gate_up, const Projection& down);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_GROUPED_MLP_H_
