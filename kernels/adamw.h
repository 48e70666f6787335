#ifndef MOONRING_KERNELS_ADAMW_H_
#define MOONRING_KERNELS_ADAMW_H_

// A step of AdamW over many tensors in one launch (operator moonring::adamw):
//
//   m <- m + (1 - b1) (g - m)        v <- b2 v + (1 - b2) g^2
//   w <- w (1 - lr decay) - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps)
//
// computed in fp32 and rounded once into w, m and v. w in fp32 or bf16, g in fp32, m and v in fp32
// or bf16; or all in fp64. t: fp32, of one number each, where the tensors are, counted from 1. Each
// list is of one dtype; tensors are contiguous and do not overlap. Any lengths, zero among them.
//
// v in bf16 moves by 1 - b2 of itself, less than half of bf16's last place: to nearest it would
// never fall. So it is rounded up with the probability that makes it right on average, by
// kernels/random's numbers: number i of a tensor by u[(place + i) / 64, (place + i) % 64] of
// CounterUniform(key, .., 64). The others are rounded to nearest.
//
// Bytes an element of fp32: 16 read, 12 written; with a bf16 weight 14 and 10.

#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kAdamW[] = "moonring::adamw";

struct AdamWTensors {
  std::vector<at::Tensor> weights, gradients, means, squares, steps;
  std::vector<int64_t> keys, places;  // of each, where squares are in bf16; else none
};

struct AdamWFactors {
  double lr, beta1, beta2, weight_decay, epsilon;
};

void AdamW(const AdamWTensors& tensors, const AdamWFactors& factors);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_ADAMW_H_
