#ifndef MOONRING_KERNELS_ADAMW_LAUNCH_H_
#define MOONRING_KERNELS_ADAMW_LAUNCH_H_

// A step of AdamW over many tensors in one launch (trainer/adamw.h is who asks): each block takes a
// piece of one tensor through all of
//
//   m <- m + (1 - b1) (g - m)        v <- b2 v + (1 - b2) g^2
//   w <- w (1 - lr decay) - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps)
//
// computed in fp32 (fp64 for fp64) and rounded once into w, m and v, in whatever type those are
// kept. Bytes an element of fp32: 16 read, 12 written; with a bf16 weight 14 and 10.
// Tensors are contiguous and do not overlap. No elements launch nothing.

#include <cstdint>
#include <vector>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

struct AdamWTensor {
  void* weight;
  const void* gradient;  // in what is computed in
  void *mean, *square;
  const float* step;  // t, from 1 on, where the tensors lie
  int64_t count;
  uint64_t key;  // of the numbers by which squares in bf16 are rounded (adamw.h)
  int64_t place;
  bool aligned = false;  // found out by the launch
};

struct AdamWNumbers {
  double lr, beta1, beta2, weight_decay, epsilon;
};

// weight, state: fp32 or bf16 each; or both fp64.
bool AdamWTakes(Type weight, Type state);
void LaunchAdamW(Type weight, Type state, std::vector<AdamWTensor> tensors,
                 const AdamWNumbers& numbers, void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_ADAMW_LAUNCH_H_
