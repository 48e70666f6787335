#ifndef MOONRING_KERNELS_GATED_LAUNCH_H_
#define MOONRING_KERNELS_GATED_LAUNCH_H_

// What gated.cu is given: matrices of one type.

#include <cstdint>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

struct GatedCall {
  Type type;
  int activation;  // gated.h's Gate
  int64_t rows, width;
  ConstRows gate, up;
  void* product;  // without gaps. Backward: its gradient, and then the gate's
  void* dup;      // backward alone; without gaps
};

void LaunchGated(const GatedCall& call, void* stream);
void LaunchGatedBackward(const GatedCall& call, void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_GATED_LAUNCH_H_
