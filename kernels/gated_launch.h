#ifndef MOONRING_KERNELS_GATED_LAUNCH_H_
#define MOONRING_KERNELS_GATED_LAUNCH_H_

// Arguments of the kernels in gated.cu: matrices of one dtype.

#include <cstdint>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

struct GatedCall {
  Type type;
  int activation;  // gated.h's Gate
  int64_t rows, width;
  ConstRows gate, up;
  void* product;  // contiguous; backward: overwrites the product's gradient by the gate's
  void* dup;      // up's gradient, backward only; contiguous
};

void LaunchGated(const GatedCall& call, void* stream);
void LaunchGatedBackward(const GatedCall& call, void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_GATED_LAUNCH_H_
