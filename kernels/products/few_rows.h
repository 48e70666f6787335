#ifndef MOONRING_KERNELS_PRODUCTS_FEW_ROWS_H_
#define MOONRING_KERNELS_PRODUCTS_FEW_ROWS_H_

// x W^T of few rows x on a CPU, as decoding has them: one pass over W, which is not laid out anew.
//
// A library's product of several rows copies the whole of W into panels first, which pays where
// each panel meets many rows: at 8 rows MKL's takes more time for that than for the product. Here a
// register tile of 4 rows and 4 of W's takes its numbers where they lie. Sums are in fp32, of fp32
// or bf16 numbers, and the result is rounded once.
//
// An element is one sum in an order that depends on the depth alone: a row gives the same bits
// whatever rows are beside it, and however many. Of many rows kFewRows go at a time.

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr int64_t kFewRows = 64;

// Whether a [M, K] times b [K, N] can be made so: on the CPU, in fp32 or bf16, each row of a and
// each column of b contiguous, the columns side by side; none of the sizes 0.
bool IsOfFewRows(const at::Tensor& a, const at::Tensor& b);

// out <- beta out + alpha a b, for such, in their dtype; where beta is 0 `out` is not read.
void FewRowsProduct(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, double beta,
                    double alpha);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PRODUCTS_FEW_ROWS_H_
