#ifndef MOONRING_MODEL_BLOCKS_GROUPED_STACKS_H_
#define MOONRING_MODEL_BLOCKS_GROUPED_STACKS_H_

// The experts of a layer that lie in two tensors, where only the device knows how many rows each
// has: grouped_mlp.h's StackedMlp, the same function with the same gradients, by products of groups
// of rows (kernels/products/grouped_products.h).
//
// Biases are gathered by each row's expert. Their gradients, and those of the stacks, are rounded
// to the rows' dtype before they are added to a sum in a wider one.
//
// Shapes and flops as there. Cost: memory at work is of all rows at once, N (2 D + 6 I), and of one
// stack's gradient besides where it is added to a sum.

#include <ATen/core/Tensor.h>

#include "model/blocks/projection.h"
#include "model/config/activation.h"
#include "model/config/config.h"

namespace moonring::model {

// Whose rows are whose, by expert.
struct RowsOfExperts {
  at::Tensor expert_N;  // int64
  at::Tensor end_E;     // int32: where each expert's rows end
};

// Whether nothing waits for the device so. Not with MOONRING_KERNELS=composed.
bool CanGroup(const Projection& gate_up, const Projection& down);

at::Tensor GroupedStacks(const at::Tensor& x_ND, const RowsOfExperts& rows, const ExpertRule& rule,
                         Activation activation, const Projection& gate_up, const Projection& down);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_GROUPED_STACKS_H_
