#ifndef MOONRING_KERNELS_LAUNCH_H_
#define MOONRING_KERNELS_LAUNCH_H_

// The interface between a kernel's source and its operator. It consists of numbers and pointers, so
// that nvcc need not compile LibTorch's headers.

#include <cstdint>

// A .cu file and its operator are compiled twice, for a GPU and for the CPU. A program may contain
// both versions, so each has its own namespace.
#if defined(__CUDACC__) || defined(MOONRING_KERNELS_ON_CUDA)
#define KERNEL_SIDE on_cuda
#else
#define KERNEL_SIDE on_cpu
#endif

namespace moonring::kernels {

enum class Type { kFloat, kDouble, kBf16, kHalf };

// A matrix with a distance of `stride` elements between rows; each row is contiguous.
struct Rows {
  void* data = nullptr;
  int64_t stride = 0;
};
struct ConstRows {
  const void* data = nullptr;
  int64_t stride = 0;
};

// The configuration of a launch: blocks in the grid, threads in a block (x a multiple of 32,
// because kernels use whole warps), bytes of dynamic shared memory, and the cudaStream_t (null on
// the CPU).
struct Shape {
  int64_t grid_x = 1, grid_y = 1;
  int block_x = 32, block_y = 1;
  int64_t shared_bytes = 0;
  void* stream = nullptr;
};

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_LAUNCH_H_
