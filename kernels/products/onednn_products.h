#ifndef MOONRING_KERNELS_PRODUCTS_ONEDNN_PRODUCTS_H_
#define MOONRING_KERNELS_PRODUCTS_ONEDNN_PRODUCTS_H_

// fp32 matmuls by LibTorch's oneDNN, in pieces of fixed size.
//
//   out <- beta out + alpha a b,   a [M, K], b [K, N], out [M, N]
//
// The order of oneDNN's sum over K depends on the numbers of rows and threads. (For example, with K
// = 576 a row of the result has other bits in a product of 65 rows than in a product of 96 rows;
// with 16 threads oneDNN cuts K.) So oneDNN gets pieces that depend on neither number: each is
// computed in one thread, several in parallel on the intra-op threads. If a is not transposed, a
// piece has kRowBlock rows, the last one padded with zeros, so a row's result does not depend on
// the number of other rows. If K also exceeds kDepthBlock (a head's input gradient: K is the
// vocabulary) and b is not transposed, K is cut into even sections too, whose products are added up
// in order; otherwise kRowBlock rows of a head would use only one thread. If a is transposed (a
// weight's gradient), the pieces have equal sizes of at most kRowBlock rows, which depend only on
// the weight's shape.
//
// Exact fp32: LibTorch's settings for TF32 and bf16 in oneDNN are off unless somebody sets them.
// Cost: 2 M N K operations, with M rounded up to kRowBlock; a copy of a piece's operand if its rows
// or columns are not contiguous; memory of one piece per thread. Measured on an AMD EPYC (Zen 5),
// one core: 200 to 270 GFLOP/s, MKL 105 to 118; with pieces 3 to 10 % less than in one call.

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#include "kernels/products/product_choice.h"

namespace moonring::kernels {

inline constexpr int64_t kRowBlock = 256, kColumnBlock = 2048, kDepthBlock = 12288;

// Whether LibTorch lets oneDNN compute fp32 matmuls on this processor: it requires AVX-512 (BW, VL
// and DQ) or AVX-NE-CONVERT, for fp32 as for bf16. Checked once.
bool HasOneDnn();

// The form of a product that oneDNN can compute here: fp32 matrices on the CPU with matching sizes
// and with contiguous rows or columns. nullopt for all other products, which LibTorch's default
// path must compute; also if HasOneDnn is false, if a size is 0, or if there are fewer than
// kLeastRows rows, because padding would then cost more than oneDNN saves.
inline constexpr int64_t kLeastRows = 64;
std::optional<ProductForm> OneDnnForm(const at::Tensor& a, const at::Tensor& b);

// The number of pieces of such a product, which is the maximum number of threads that work on it.
// out is [rows, columns].
int64_t OneDnnPieces(int64_t rows, int64_t columns, bool a_is_transposed);

// out <- beta out + alpha a b, for operands for which OneDnnForm returns a form; `out` is fp32 on
// the CPU, of any layout. If beta is 0, `out` is not read.
void OneDnnProduct(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, double beta,
                   double alpha);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PRODUCTS_ONEDNN_PRODUCTS_H_
