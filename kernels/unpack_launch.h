#ifndef MOONRING_KERNELS_UNPACK_LAUNCH_H_
#define MOONRING_KERNELS_UNPACK_LAUNCH_H_

// Arguments of the kernels in unpack.cu: a weight's packed tensors, and the contiguous output.

#include <cstdint>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

constexpr int kUnpackSteps = 16, kUnpackScaleSteps = 256;
constexpr int64_t kUnpackBlock = 64, kUnpackScaleBlock = 256;

struct UnpackFourBitsCall {
  Type type;
  int64_t count;
  const uint8_t* codes;
  // The scale of block b is scales[b]. If scale_codes is not null (double quantization), it is
  // scale_steps[scale_codes[b]] scales[b / 256] + *mean.
  const float* scales;
  const uint8_t* scale_codes;  // or null
  const float* mean;
  void* out;
  float steps[kUnpackSteps], scale_steps[kUnpackScaleSteps];
};

struct UnpackEightBitsCall {
  Type type;
  int64_t rows, width;
  const int8_t* codes;
  const float* scales;
  void* out;
};

void LaunchUnpackFourBits(const UnpackFourBitsCall& call, void* stream);
void LaunchUnpackEightBits(const UnpackEightBitsCall& call, void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_UNPACK_LAUNCH_H_
