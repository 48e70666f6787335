#ifndef MOONRING_KERNELS_PRODUCTS_GROUPED_PRODUCTS_H_
#define MOONRING_KERNELS_PRODUCTS_GROUPED_PRODUCTS_H_

// Matmuls of groups of rows with one matrix per group, where only the device knows the number of
// rows of each group: uses LibTorch 2.11's _grouped_mm.
//
//   GroupedProduct    y_n = a_n W_g          a [N, K], W [G, K, M] -> [N, M],  n of group g
//   GroupedGradient   W_g = sum a_n^T b_n    a [N, K], b [N, M] -> [G, K, M]
//   GroupedSum        s_g = sum a_n          a [N, K] -> [G, K]
//
// N rows, G groups, K inputs and M outputs. end_G: int32, the end of each group's rows. Groups are
// consecutive and the last ends at N, which may be 0. A group without rows gets zeros. All tensors
// have one dtype: bf16, fp16 or fp32. Sums are in fp32 and rounded once to that dtype, even if they
// are later added to a wider one. Not differentiable.
//
// If TakesGroups returns true, each call is one kernel and does not synchronize with the host.
// Otherwise LibTorch copies the ends to the host in each call and multiplies group by group: slower
// than products.h.

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

// Whether LibTorch's kernel supports products of rows with this stack of matrices or its transposed
// view, and a stack of the same shape as a gradient. It requires bf16 on a GPU of compute
// capability 9, and fewer than 1024 contiguous matrices whose sizes are multiples of 8 (so that
// rows begin at multiples of 16 bytes).
bool TakesGroups(const at::Tensor& stack_GKM);

at::Tensor GroupedProduct(const at::Tensor& a_NK, const at::Tensor& stack_GKM,
                          const at::Tensor& end_G);
at::Tensor GroupedGradient(const at::Tensor& a_NK, const at::Tensor& b_NM, const at::Tensor& end_G);
at::Tensor GroupedSum(const at::Tensor& a_NK, const at::Tensor& end_G);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PRODUCTS_GROUPED_PRODUCTS_H_
