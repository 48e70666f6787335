#ifndef MOONRING_KERNELS_PRODUCTS_GROUPED_PRODUCTS_H_
#define MOONRING_KERNELS_PRODUCTS_GROUPED_PRODUCTS_H_

// Products of groups of rows, each with a matrix of its own, where only the device knows how many
// rows a group has: by LibTorch 2.11's _grouped_mm.
//
//   GroupedProduct    y_n = a_n W_g          a [N, K], W [G, K, M] -> [N, M],  n of group g
//   GroupedGradient   W_g = sum a_n^T b_n    a [N, K], b [N, M] -> [G, K, M]
//   GroupedSum        s_g = sum a_n          a [N, K] -> [G, K]
//
// end_G: int32, where each group's rows end; they lie one group after the other and the last ends
// at N, which may be 0. A group without rows has zeros. All of one dtype: bf16, fp16 or fp32. Sums
// are in fp32 and rounded once, also where they are added to a wider one later. Not differentiable.
//
// One kernel, which nothing waits for, where TakesGroups says so. Elsewhere LibTorch brings the
// ends to the host, once a call, and multiplies group by group: slower than products.h.

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

// Whether LibTorch's kernel takes this stack, its transposed view, rows like those of the products
// with them, and a stack of its shape as the result: bf16 on a GPU of compute capability 9 or 10,
// fewer than 1024 matrices without gaps between them, whose sizes are multiples of 8 (rows begin at
// multiples of 16 bytes).
bool TakesGroups(const at::Tensor& stack_GKM);

at::Tensor GroupedProduct(const at::Tensor& a_NK, const at::Tensor& stack_GKM,
                          const at::Tensor& end_G);
at::Tensor GroupedGradient(const at::Tensor& a_NK, const at::Tensor& b_NM, const at::Tensor& end_G);
at::Tensor GroupedSum(const at::Tensor& a_NK, const at::Tensor& end_G);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PRODUCTS_GROUPED_PRODUCTS_H_
