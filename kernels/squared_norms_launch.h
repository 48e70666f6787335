#ifndef MOONRING_KERNELS_SQUARED_NORMS_LAUNCH_H_
#define MOONRING_KERNELS_SQUARED_NORMS_LAUNCH_H_

// The sum of squares of each of many tensors, in fp64 (finite fp32 numbers cannot overflow it), in
// two launches in all: first over pieces of kNormPiece elements, one block each, then over each
// tensor's pieces. The order of both sums depends only on a tensor's length, not on its address.
//
// Reads each element once. A tensor without elements has 0; with no tensors nothing is launched.

#include <cstdint>
#include <vector>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

constexpr int64_t kNormPiece = 1 << 16;

struct NormTensor {
  const void* data;
  int64_t count;
  bool aligned = false;  // set by LaunchSquaredNorms
};

// All tensors have one dtype. sums: fp64 [tensors]; pieces: fp64 scratch, one number per piece.
void LaunchSquaredNorms(Type type, std::vector<NormTensor> tensors, double* pieces, double* sums,
                        void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_SQUARED_NORMS_LAUNCH_H_
