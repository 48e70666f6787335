#ifndef MOONRING_MODEL_LAYERS_H_
#define MOONRING_MODEL_LAYERS_H_

// What a decoder block is made of, as pure functions of tensors. No state, no ranks, no parameters.
//
//   RmsNorm       y = w * x / sqrt(mean(x^2) + eps)                          saves x and 1/sqrt(..)
//   Rotary        (a, b) -> (a cos - b sin, b cos + a sin), halves of a head   saves nothing of its input
//   Linear        y = x W^T + b                                              saves x and W
//   GatedDown     y = (silu(gate) * up) W^T + b                              saves gate, up and W, not the product
//
// Shapes: T rows, D features, H heads, I intermediate features, F = half of a head. Any T, zero among them. Rows do not
// mix, so a rank's rows give what the whole stream gives. Norm and rotary compute in fp32 (fp64 for fp64) whatever the
// dtype around them; the linear layers compute in the dtype of their inputs. Each is differentiable once: a second
// derivative is refused. Shapes that do not fit throw c10::Error.

#include <ATen/core/Tensor.h>

namespace moonring::model {

// The dtype that norms, rotary embedding and the residual stream use where matmuls use `matmul_dtype`.
at::ScalarType StreamDtype(at::ScalarType matmul_dtype);

// x_TD and weight_D in the stream's dtype; the result is cast to `result_dtype` last.
at::Tensor RmsNorm(const at::Tensor& x_TD, const at::Tensor& weight_D, double eps, at::ScalarType result_dtype);

// Cosines and sines of a micro-batch's positions, made once and shared by all layers.
struct Rotary {
  at::Tensor cos_T1F;
  at::Tensor sin_T1F;
};

// Angles position * theta^(-2f / head_dim), in `dtype` (fp32 or fp64) from the frequencies on, as Transformers has them.
Rotary MakeRotary(const at::Tensor& positions_T, int64_t head_dim, double theta, at::ScalarType dtype);

// x_THD in its own dtype, rotated in the rotary's; the two halves of a head are the pair (Hugging Face's convention).
at::Tensor ApplyRotary(const at::Tensor& x_THD, const Rotary& rotary);

// `bias` may be undefined.
at::Tensor Linear(const at::Tensor& x_TD, const at::Tensor& weight, const at::Tensor& bias);

// The second half of a gated MLP: gate_TI, up_TI, weight [D, I]; `bias_D` may be undefined.
at::Tensor GatedDown(const at::Tensor& gate_TI, const at::Tensor& up_TI, const at::Tensor& weight_DI, const at::Tensor& bias_D);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_LAYERS_H_
