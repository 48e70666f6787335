#ifndef MOONRING_KERNELS_PHILOX_LAUNCH_H_
#define MOONRING_KERNELS_PHILOX_LAUNCH_H_

// Arguments of the kernels in philox.cu.

#include <cstdint>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

struct PhiloxCall {
  uint64_t key;
  const int64_t* identity;  // [rows]
  int64_t rows, width;
};

// `out` is contiguous [rows, width].
void LaunchUniform(const PhiloxCall& call, float* out, void* stream);

struct DropoutCall {
  PhiloxCall numbers;
  Type type;
  float rate;
  double scale;  // factor of the kept elements
  ConstRows x;
  Rows out;  // may be x
};

void LaunchDropout(const DropoutCall& call, void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_PHILOX_LAUNCH_H_
