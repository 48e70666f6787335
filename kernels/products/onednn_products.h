#ifndef MOONRING_KERNELS_PRODUCTS_ONEDNN_PRODUCTS_H_
#define MOONRING_KERNELS_PRODUCTS_ONEDNN_PRODUCTS_H_

// fp32 products by oneDNN, the one inside LibTorch, in pieces of fixed size.
//
//   out <- beta out + alpha a b,   a [M, K], b [K, N], out [M, N]
//
// How oneDNN orders a sum over K depends on how many rows and threads it is given (with 65 rows of
// 576 numbers a row has other bits than with 96; with 16 threads it cuts K). So it is given pieces
// that depend on neither: each is made in one thread, side by side over the intra-op threads. Of a
// product whose a is not transposed a piece is kRowBlock rows, the last one padded with zeros: a
// row's numbers are the same however many rows are beside it (design.md, rule 5). Where K is beyond
// kDepthBlock (a head's input gradient: K is the vocabulary) and b is not transposed, it is cut
// into even parts too, whose products are added up in order: else a head's rows, kRowBlock at a
// time, were one thread's. Of a transposed a (a weight's gradient) the pieces are even ones of at
// most kRowBlock rows: a function of W's shape.
//
// Exact fp32: LibTorch's switches for TF32 and bf16 in oneDNN are off unless somebody sets them.
// Cost: 2 M N K operations, M rounded up to kRowBlock; a piece's copies where its rows or columns
// are part of what is there; memory of a piece a thread. Measured on an AMD EPYC (Zen 5), one core:
// 200 to 270 GFLOP/s, MKL 105 to 118; in pieces 3 to 10 % less than in one call.

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#include "kernels/products/product_choice.h"

namespace moonring::kernels {

inline constexpr int64_t kRowBlock = 256, kColumnBlock = 2048, kDepthBlock = 12288;

// Whether LibTorch lets oneDNN make fp32 products on this processor: it wants AVX-512 (BW, VL and
// DQ) or AVX-NE-CONVERT, and refuses fp32 without as it refuses bf16. Asked once.
bool HasOneDnn();

// The form of a product that oneDNN can make here: fp32 matrices on the CPU that fit, with rows or
// columns that lie together. Nothing: LibTorch's own path takes it; also without HasOneDnn, where
// there are so few rows (kLeastRows) that padding would cost more than it saves, or the numbers are
// 0.
inline constexpr int64_t kLeastRows = 64;
std::optional<ProductForm> OneDnnForm(const at::Tensor& a, const at::Tensor& b);

// How many pieces such a product has, hence threads that work on it at most: out is
// [rows, columns].
int64_t OneDnnPieces(int64_t rows, int64_t columns, bool a_is_transposed);

// Of what OneDnnForm gives a form for; `out` is fp32 on the CPU, of any layout. Where beta is 0 it
// is not read.
void OneDnnProduct(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, double beta,
                   double alpha);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PRODUCTS_ONEDNN_PRODUCTS_H_
