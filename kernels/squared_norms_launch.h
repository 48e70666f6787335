#ifndef MOONRING_KERNELS_SQUARED_NORMS_LAUNCH_H_
#define MOONRING_KERNELS_SQUARED_NORMS_LAUNCH_H_

// The sum of squares of each of many tensors, in fp64 (finite fp32 numbers cannot overflow it), in
// two launches for all of them: pieces of kNormPiece elements, a block each, then each tensor's
// pieces. The order of both sums follows from a tensor's length alone, not from its address.
//
// Reads each element once. A tensor without elements has 0; no tensors launch nothing.

#include <cstdint>
#include <vector>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

constexpr int64_t kNormPiece = 1 << 16;

struct NormTensor {
  const void* data;
  int64_t count;
  bool aligned = false;  // found out by the launch
};

// Of one type all. sums: fp64 [tensors]; pieces: fp64, written over, one for each piece.
void LaunchSquaredNorms(Type type, std::vector<NormTensor> tensors, double* pieces, double* sums,
                        void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_SQUARED_NORMS_LAUNCH_H_
