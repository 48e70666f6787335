#ifndef MOONRING_MODEL_BLOCKS_RMS_NORM_H_
#define MOONRING_MODEL_BLOCKS_RMS_NORM_H_

// RMSNorm without an autograd graph; layers.h builds its autograd functions on this. Uses the fused
// kernels of kernels/rms_norm.h if a GPU has them (kernels/choice.h), else LibTorch's
// operators. `weight_D` is in fp32, or fp64 for fp64, and arithmetic is in its dtype; x may be in a
// narrower one.

#include <ATen/core/Tensor.h>

namespace moonring::model {

// Whether the fused kernels are used for `x`.
bool HasRmsNormKernel(const at::Tensor& x);

struct NormedRows {
  at::Tensor y_TD;     // w x r
  at::Tensor rstd_T1;  // r = 1/sqrt(mean(x^2) + eps)
};
NormedRows NormRows(const at::Tensor& x_TD, const at::Tensor& weight_D, double eps,
                    at::ScalarType result_dtype);

// Recomputes NormedRows::y_TD from NormedRows::rstd_T1.
at::Tensor NormRowsAgain(const at::Tensor& x_TD, const at::Tensor& weight_D,
                         const at::Tensor& rstd_T1, double eps, at::ScalarType result_dtype);

struct NormGradients {
  at::Tensor x_TD, weight_D;  // in the inputs' dtypes; undefined if not requested
};

// Backward of the norm. With r = rstd and n = x r: dw = sum_T dy n, dx = r (dy w - n mean_D(dy w
// n)).
NormGradients NormRowsBackward(const at::Tensor& dy_TD, const at::Tensor& x_TD,
                               const at::Tensor& weight_D, const at::Tensor& rstd_T1, bool needs_x,
                               bool needs_weight);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_RMS_NORM_H_
