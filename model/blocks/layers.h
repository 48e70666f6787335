#ifndef MOONRING_MODEL_BLOCKS_LAYERS_H_
#define MOONRING_MODEL_BLOCKS_LAYERS_H_

// Layers of a decoder block, as pure functions of tensors: no state, no ranks, no parameters.
//
//   RmsNorm       y = w * x / sqrt(mean(x^2) + eps)                          saves x and 1/sqrt(..)
//   Linear        y = x W^T + b                                              saves x and W
//   NormedLinear  y_i = RmsNorm(x) W_i^T + b_i                               saves x, 1/sqrt(..)
//                 and the W_i, not the normalised rows
//   GatedDown     y = (act(gate) * up) W^T + b                               saves gate, up and W,
//                 not the product. Without an up: y = act(gate) W^T + b
//
//   act           silu(x) = x sigmoid(x); gelu(x) = x Phi(x); gelu_tanh(x) = x/2 (1 +
//                 tanh(sqrt(2/pi) (x + 0.044715 x^3))); relu_squared(x) = max(x, 0)^2
//
// Shapes: T rows, D features, I intermediate features. T may be 0. Rows do not interact, so a rank
// that has only some of the rows computes the same results for them. Norms compute in fp32 (fp64
// for fp64), whatever the dtype of their inputs; the linear layers compute in the dtype of their
// inputs. Each layer is differentiable once: a second derivative is refused. Throws c10::Error if
// shapes do not fit.
//
// If a linear map is given a WeightSum (gradient_sum.h), the gradient of its weight is added to
// that WeightSum and not returned to autograd. If the WeightSum is null or absent, autograd gets
// the gradient.

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/products/gradient_sum.h"
#include "model/blocks/gated_product.h"
#include "model/config/activation.h"

namespace moonring::model {

using WeightSum = std::shared_ptr<kernels::GradientSum>;

// The dtype of norms, rotary embedding and sums ("wide dtype"): fp32, or fp64 if matmul_dtype is
// fp64.
at::ScalarType WideDtype(at::ScalarType matmul_dtype);

// RmsNorm of each row, multiplied by weight_D. weight_D is in fp32 or fp64; x_TD is in the same
// dtype or a narrower one. The result is cast to `result_dtype` at the end.
at::Tensor RmsNorm(const at::Tensor& x_TD, const at::Tensor& weight_D, double eps,
                   at::ScalarType result_dtype);

// Returns x + scale y, in x's dtype. Overwrites y if y has that dtype and no other tensor shares
// its memory; this is safe because no backward needs y.
at::Tensor AddRows(const at::Tensor& x_TD, at::Tensor y_TD, double scale);

// AddRows, then RmsNorm of the sum, in one kernel if the GPU has it; that kernel does not overwrite
// y. y has the dtype of x or `result_dtype`.
struct SumAndNorm {
  at::Tensor sum_TD, normed_TD;
};
SumAndNorm AddAndNorm(const at::Tensor& x_TD, at::Tensor y_TD, double scale,
                      const at::Tensor& weight_D, double eps, at::ScalarType result_dtype);

// `bias` may be undefined.
at::Tensor Linear(const at::Tensor& x_TD, const at::Tensor& weight, const at::Tensor& bias,
                  const WeightSum& sum = nullptr);

// Applies several linear maps to the same normalised rows, in the dtype of the weights. `norm_D` is
// the norm's weight. `biases` has one entry per linear map, which may be undefined; `sums` has one
// entry per linear map, or is empty.
std::vector<at::Tensor> NormedLinear(const at::Tensor& x_TD, const at::Tensor& norm_D, double eps,
                                     const std::vector<at::Tensor>& weights,
                                     const std::vector<at::Tensor>& biases,
                                     const std::vector<WeightSum>& sums = {});

// The second half of a gated MLP, (act(gate) * up) W^T + b: [T, D]. `up_TI` and `bias_D` may be
// undefined.
at::Tensor GatedDown(const at::Tensor& gate_TI, const at::Tensor& up_TI,
                     const at::Tensor& weight_DI, const at::Tensor& bias_D, Activation activation,
                     const WeightSum& sum = nullptr);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_LAYERS_H_
