#ifndef MOONRING_KERNELS_GATED_H_
#define MOONRING_KERNELS_GATED_H_

// The product in a gated MLP and its gradients, each in one pass (operators moonring::gated and
// moonring::gated_backward_):
//
//   p = act(gate) up                              3 T I elements read and written
//   dup = dp act(gate),  dgate = dp up act'(gate)  5 T I elements read and written
//
// T rows of I features. dp, dup and dgate are the gradients of p, up and gate. act: silu, gelu
// (with erf) or gelu_tanh, as in model/blocks/layers.h. gate_TI and up_TI have the same dtype:
// fp32, fp64, bf16 or fp16. Arithmetic is in fp32 (fp64 for fp64), with one rounding at the end. T
// and I may be zero; rows may have any stride.

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kGated[] = "moonring::gated";

enum class Gate { kSilu = 0, kGelu = 1, kGeluTanh = 2 };

at::Tensor Gated(const at::Tensor& gate_TI, const at::Tensor& up_TI, Gate activation);

// Returns dup and overwrites dp_TI, which is contiguous, with dgate.
at::Tensor GatedBackward(at::Tensor dp_TI, const at::Tensor& gate_TI, const at::Tensor& up_TI,
                         Gate activation);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_GATED_H_
