#ifndef MOONRING_KERNELS_ROTARY_LAUNCH_H_
#define MOONRING_KERNELS_ROTARY_LAUNCH_H_

// What rotary.cu is given.

#include <cstdint>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

// Heads of a row, `head_stride` elements apart, each without gaps.
struct Heads {
  ConstRows from;
  int64_t head_stride = 0;
  int64_t count = 0;
  void* to = nullptr;  // [rows, count, width] without gaps
};

struct RotaryCall {
  Type type;
  int64_t rows, width, pairs;  // width of a head; 2 pairs <= width features turn
  Heads q, k;
  const void *cos, *sin;  // [rows, pairs] without gaps, in fp32, or fp64 for fp64
  bool interleaved = false, back = false;
};

void LaunchRotary(const RotaryCall& call, void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_ROTARY_LAUNCH_H_
