#ifndef MOONRING_KERNELS_MATRICES_H_
#define MOONRING_KERNELS_MATRICES_H_

// Elementwise kernels over a matrix, for .cu files. Each thread processes N elements of a row; a
// block covers a section of a row, or several rows if they are short.
//
//   Launch(ShapeOfMatrix<kN>(rows, width, stream), &Kernel, ..., rows, width)
//   in Kernel:  ForPieces<kN>(rows, width, [&](int64_t row, int64_t column) {...});

#include "kernels/language.h"

namespace moonring::kernels::KERNEL_SIDE {

constexpr int kMatrixThreads = 256;

template <int N>
Shape ShapeOfMatrix(int64_t rows, int64_t width, void* stream) {
  const int64_t pieces = (width + N - 1) / N;
  Shape shape;
  while (shape.block_x < pieces && shape.block_x < kMatrixThreads) shape.block_x *= 2;
  shape.block_y = kMatrixThreads / shape.block_x;
  shape.grid_x = (pieces + shape.block_x - 1) / shape.block_x;
  const int64_t most = 65535, needed = (rows + shape.block_y - 1) / shape.block_y;
  shape.grid_y = needed < most ? needed : most;
  shape.stream = stream;
  return shape;
}

template <int N, typename Each>
__device__ __forceinline__ void ForPieces(int64_t rows, int64_t width, const Each& each) {
  const int64_t column = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (column >= width) return;
  for (int64_t row = int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < rows;
       row += int64_t{gridDim.y} * blockDim.y)
    each(row, column);
}

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_MATRICES_H_
