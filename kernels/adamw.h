#ifndef MOONRING_KERNELS_ADAMW_H_
#define MOONRING_KERNELS_ADAMW_H_

// One AdamW step over many tensors in one launch (operator moonring::adamw):
//
//   m <- m + (1 - b1) (g - m)        v <- b2 v + (1 - b2) g^2
//   w <- w (1 - lr decay) - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps)
//
// w: weight; g: gradient; m, v: first and second moment; b1, b2: the betas; decay: weight decay; t:
// step, from 1.
//
// The computation is in fp32, with one rounding into each of w, m and v. w is fp32 or bf16, g is
// fp32, m and v are fp32 or bf16; or all are fp64. t is one fp32 number per tensor, on the tensors'
// device. Each list has one dtype; tensors are contiguous and do not overlap. Any length is
// allowed, including zero.
//
// Stochastic rounding of v to bf16: in one step v changes by at most 1 - b2 of its value downwards,
// which is less than half a unit in the last place of bf16, so with rounding to nearest it would
// never decrease. Instead it is rounded up with the probability that makes the result right on
// average. Element i of a tensor uses u[(place + i) / 64, (place + i) % 64] of CounterUniform(key,
// .., 64) in kernels/random, where `place` is the index of the tensor's first element in the whole
// weight. w and m are rounded to nearest.
//
// Bytes per fp32 element: 16 read, 12 written; with a bf16 weight 14 and 10.

#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kAdamW[] = "moonring::adamw";

struct AdamWTensors {
  std::vector<at::Tensor> weights, gradients, means, squares, steps;
  std::vector<int64_t> keys, places;  // one per tensor if v is bf16; else empty
};

struct AdamWFactors {
  double lr, beta1, beta2, weight_decay, epsilon;
};

void AdamW(const AdamWTensors& tensors, const AdamWFactors& factors);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_ADAMW_H_
