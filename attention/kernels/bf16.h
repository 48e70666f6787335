#ifndef MOONRING_ATTENTION_KERNELS_BF16_H_
#define MOONRING_ATTENTION_KERNELS_BF16_H_

// A bfloat16 type for code that does not depend on LibTorch: the upper half of a float.

#include <cstdint>

namespace moonring::attention {

struct Bf16 {
  uint16_t bits;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_BF16_H_
