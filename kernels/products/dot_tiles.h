#ifndef MOONRING_KERNELS_PRODUCTS_DOT_TILES_H_
#define MOONRING_KERNELS_PRODUCTS_DOT_TILES_H_

// Inner products of a few rows with many, without LibTorch: the inner loops of few_rows.h, with the
// widest vectors that the CPU has, chosen at run time.

#include <cstdint>

namespace moonring::kernels {

// result[r * stride + c] = sum_k x[r * depth + k] w[c * depth + k], for r < rows and c < columns.
void DotTiles(const float* x, int64_t rows, const float* w, int64_t columns, int64_t depth,
              float* result, int64_t stride);
// Like the function above, with bf16 numbers in w, given as the upper halves of floats.
void DotTiles(const float* x, int64_t rows, const uint16_t* w, int64_t columns, int64_t depth,
              float* result, int64_t stride);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PRODUCTS_DOT_TILES_H_
