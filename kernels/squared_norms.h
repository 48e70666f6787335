#ifndef MOONRING_KERNELS_SQUARED_NORMS_H_
#define MOONRING_KERNELS_SQUARED_NORMS_H_

// The sum of squares of each of many tensors in two launches for all of them (operator
// moonring::squared_norms): pieces of 65,536 elements, then each tensor's pieces. Sums are in fp64,
// which finite numbers of fp32 cannot overflow, and have a fixed order.
//
// Tensors are contiguous and of one dtype: fp32, bf16, fp16 or fp64. One without elements has 0.
// Reads each element once; beside the result fp64 for each piece.

#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kSquaredNorms[] = "moonring::squared_norms";

// Of at least one tensor: fp64 [tensors], where they are.
at::Tensor SquaredNorms(const std::vector<at::Tensor>& tensors);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_SQUARED_NORMS_H_
