#ifndef MOONRING_KERNELS_ADAMW_LAUNCH_H_
#define MOONRING_KERNELS_ADAMW_LAUNCH_H_

// One AdamW step over many tensors in one launch (used by trainer/optimizer/adamw.h). Each block
// processes a piece of one tensor:
//
//   m <- m + (1 - b1) (g - m)        v <- b2 v + (1 - b2) g^2
//   w <- w (1 - lr decay) - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps)
//
// w: weight; g: gradient; m, v: first and second moment; b1, b2: the betas; decay: weight decay; t:
// step, from 1.
//
// The computation is in fp32 (fp64 for fp64), with one rounding into the dtype of each of w, m and
// v. Bytes per fp32 element: 16 read, 12 written; with a bf16 weight 14 and 10. Tensors are
// contiguous and do not overlap. With no elements nothing is launched.

#include <cstdint>
#include <vector>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

struct AdamWTensor {
  void* weight;
  const void* gradient;  // in the dtype of the computation
  void *mean, *square;
  const float* step;  // t, from 1 on, on the tensors' device
  int64_t count;
  uint64_t key;  // key of the random numbers for rounding squares to bf16 (adamw.h)
  int64_t place;
  bool aligned = false;  // set by LaunchAdamW
};

struct AdamWNumbers {
  double lr, beta1, beta2, weight_decay, epsilon;
};

// Whether the kernel supports these dtypes: weight and state are each fp32 or bf16, or both are
// fp64.
bool AdamWTakes(Type weight, Type state);
void LaunchAdamW(Type weight, Type state, std::vector<AdamWTensor> tensors,
                 const AdamWNumbers& numbers, void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_ADAMW_LAUNCH_H_
