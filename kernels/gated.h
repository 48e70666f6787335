#ifndef MOONRING_KERNELS_GATED_H_
#define MOONRING_KERNELS_GATED_H_

// The product of a gated MLP and its gradients, each in one pass (operators moonring::gated and
// moonring::gated_backward_):
//
//   p = act(gate) up                              3 T I elements moved
//   dup = dp act(gate),  dgate = dp up act'(gate)  5 T I
//
// act: silu, gelu (by erf), gelu_tanh, as model/blocks/layers.h has them. gate_TI and up_TI in one
// of fp32, fp64, bf16, fp16; arithmetic in fp32 (fp64 for fp64), rounded once. Any T and I, zero
// among them; rows may be any distance apart.

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kGated[] = "moonring::gated";

enum class Gate { kSilu = 0, kGelu = 1, kGeluTanh = 2 };

at::Tensor Gated(const at::Tensor& gate_TI, const at::Tensor& up_TI, Gate activation);

// Gives dup; dgate is written over dp_TI, which has no gaps.
at::Tensor GatedBackward(at::Tensor dp_TI, const at::Tensor& gate_TI, const at::Tensor& up_TI,
                         Gate activation);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_GATED_H_
