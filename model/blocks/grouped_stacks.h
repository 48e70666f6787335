#ifndef MOONRING_MODEL_BLOCKS_GROUPED_STACKS_H_
#define MOONRING_MODEL_BLOCKS_GROUPED_STACKS_H_

// The MLPs of all experts, with the result and gradients of StackedMlp (grouped_mlp.h), if the
// number of rows of each expert is known only on the GPU. Uses grouped matrix products
// (kernels/products/grouped_products.h).
//
// Each row uses the bias of its expert. Gradients of biases and of the stacked tensors are rounded
// to the rows' dtype before they are added to an accumulator of a wider dtype.
//
// Shapes and flops are those of grouped_mlp.h. Memory while it runs: N (2 D + 6 I) numbers, because
// all rows are processed at once, and the gradient of one stacked tensor if it is added to an
// accumulator.

#include <ATen/core/Tensor.h>

#include "model/blocks/projection.h"
#include "model/config/activation.h"
#include "model/config/config.h"

namespace moonring::model {

// Which expert processes each row. Rows are ordered by expert.
struct RowsOfExperts {
  at::Tensor expert_N;  // int64: the expert of each row
  at::Tensor end_E;     // int32: index after each expert's last row
};

// Whether GroupedStacks supports these weights on their device. False if the environment variable
// MOONRING_KERNELS is "composed".
bool CanGroup(const Projection& gate_up, const Projection& down);

at::Tensor GroupedStacks(const at::Tensor& x_ND, const RowsOfExperts& rows, const ExpertRule& rule,
                         Activation activation, const Projection& gate_up, const Projection& down);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_GROUPED_STACKS_H_
