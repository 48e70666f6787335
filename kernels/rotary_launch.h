#ifndef MOONRING_KERNELS_ROTARY_LAUNCH_H_
#define MOONRING_KERNELS_ROTARY_LAUNCH_H_

// Arguments of the kernels in rotary.cu.

#include <cstdint>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

// The heads of a row, `head_stride` elements apart; each head is contiguous.
struct Heads {
  ConstRows from;
  int64_t head_stride = 0;
  int64_t count = 0;
  void* to = nullptr;  // [rows, count, width], contiguous
};

struct RotaryCall {
  Type type;
  int64_t rows, width, pairs;  // width of a head; the first 2 pairs features are rotated
  Heads q, k;
  const void *cos, *sin;  // [rows, pairs], contiguous, in fp32, or fp64 for fp64
  bool interleaved = false, back = false;
};

void LaunchRotary(const RotaryCall& call, void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_ROTARY_LAUNCH_H_
