#ifndef MOONRING_KERNELS_LAUNCH_H_
#define MOONRING_KERNELS_LAUNCH_H_

// What a kernel's source and the operator around it say to each other: numbers and pointers, so
// that nvcc need not read LibTorch's headers.

#include <cstdint>

// A .cu file and its operator are compiled twice, for a GPU and for the CPU; a program may hold
// both, so each stands in a namespace of its own.
#if defined(__CUDACC__) || defined(MOONRING_KERNELS_ON_CUDA)
#define KERNEL_SIDE on_cuda
#else
#define KERNEL_SIDE on_cpu
#endif

namespace moonring::kernels {

enum class Type { kFloat, kDouble, kBf16, kHalf };

// A matrix whose rows are `stride` elements apart and have no gaps in them.
struct Rows {
  void* data = nullptr;
  int64_t stride = 0;
};
struct ConstRows {
  const void* data = nullptr;
  int64_t stride = 0;
};

// A launch: blocks in a grid, threads in a block (x a multiple of 32, since kernels use whole
// warps), bytes of dynamic shared memory, and the cudaStream_t, which the CPU has none of.
struct Shape {
  int64_t grid_x = 1, grid_y = 1;
  int block_x = 32, block_y = 1;
  int64_t shared_bytes = 0;
  void* stream = nullptr;
};

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_LAUNCH_H_
