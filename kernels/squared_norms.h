#ifndef MOONRING_KERNELS_SQUARED_NORMS_H_
#define MOONRING_KERNELS_SQUARED_NORMS_H_

// The sum of squares of each of many tensors, in two launches in all (operator
// moonring::squared_norms): first over pieces of 65,536 elements, then over each tensor's pieces.
// Sums are in fp64, so finite fp32 numbers cannot overflow them, and have a fixed order.
//
// Tensors are contiguous and of one dtype: fp32, bf16, fp16 or fp64. A tensor without elements has
// 0. Reads each element once; needs one fp64 number per piece besides the result.

#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kSquaredNorms[] = "moonring::squared_norms";

// At least one tensor; returns fp64 [tensors] on the tensors' device.
at::Tensor SquaredNorms(const std::vector<at::Tensor>& tensors);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_SQUARED_NORMS_H_
