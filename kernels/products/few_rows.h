#ifndef MOONRING_KERNELS_PRODUCTS_FEW_ROWS_H_
#define MOONRING_KERNELS_PRODUCTS_FEW_ROWS_H_

// x W^T for a few rows x on a CPU, as needed in decoding: one pass over W, without copying it to
// another layout.
//
// For several rows a BLAS library first copies the whole of W into panels, which pays off if each
// panel is used for many rows: at 8 rows MKL spends more time on that than on the product. Here a
// register tile of 4 rows of x and 4 of W reads its numbers directly. Sums are in fp32, of fp32 or
// bf16 numbers, and the result is rounded once.
//
// The order of an element's sum depends on the depth only: a row gets the same bits whatever the
// other rows are, and however many. At most kFewRows rows are processed at a time.

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr int64_t kFewRows = 64;

// Whether a [M, K] times b [K, N] can be computed this way: on the CPU, in fp32 or bf16, with
// contiguous rows of a and contiguous columns of b, the columns without gaps between them; no size
// is 0.
bool IsOfFewRows(const at::Tensor& a, const at::Tensor& b);

// out <- beta out + alpha a b, for a and b that IsOfFewRows accepts, with `out` in the same dtype;
// if beta is 0, `out` is not read.
void FewRowsProduct(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, double beta,
                    double alpha);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PRODUCTS_FEW_ROWS_H_
