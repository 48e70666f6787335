#ifndef MOONRING_MODEL_BLOCKS_GROUPED_STACKS_H_
#define MOONRING_MODEL_BLOCKS_GROUPED_STACKS_H_

// StackedMlp of grouped_mlp.h for the case that only the device knows how many rows each expert
// has: the same function with the same gradients, by grouped matrix products
// (kernels/products/grouped_products.h).
//
// Biases are gathered by each row's expert. Gradients of biases and stacks are rounded to the rows'
// dtype before they are added to a sum in a wider one.
//
// Shapes and flops as in grouped_mlp.h. Memory while it runs: that of all rows at once, N (2 D + 6
// I), and one stack's gradient if it is added to a sum.

#include <ATen/core/Tensor.h>

#include "model/blocks/projection.h"
#include "model/config/activation.h"
#include "model/config/config.h"

namespace moonring::model {

// Assignment of rows to experts. Rows are ordered by expert.
struct RowsOfExperts {
  at::Tensor expert_N;  // int64: the expert of each row
  at::Tensor end_E;     // int32: the end of each expert's rows
};

// Whether GroupedStacks can be used. False with MOONRING_KERNELS=composed.
bool CanGroup(const Projection& gate_up, const Projection& down);

at::Tensor GroupedStacks(const at::Tensor& x_ND, const RowsOfExperts& rows, const ExpertRule& rule,
                         Activation activation, const Projection& gate_up, const Projection& down);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_GROUPED_STACKS_H_
