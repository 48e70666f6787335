#ifndef MOONRING_KERNELS_RMS_NORM_H_
#define MOONRING_KERNELS_RMS_NORM_H_

// RMSNorm, optionally with a preceding residual sum, in one pass (operators moonring::rms_norm and
// moonring::rms_norm_backward):
//
//   s = x + scale added (s = x if nothing is added)
//   r = 1/sqrt(mean_D(s^2) + eps),  y = w s r
//   ds = r (dy w - s r mean_D(dy w s r)) + dsum,  dw = sum_T dy s r,  dadded = scale ds
//
// T rows of D numbers, w [D] the norm's weight. d.. are gradients: dy that of y, ds (also x's
// gradient), dw and dadded those of s, w and added; dsum is the gradient that s gets from its other
// uses.
//
// x_TD and y are both in one of fp32, bf16, fp16 and fp64, or one is in fp32 and the other in bf16
// or fp16. Arithmetic, w and r are in fp32, or fp64 for fp64. `added` has the dtype of x or of y. T
// and D may be zero; rows may have any stride. Memory traffic: each tensor above once (a row is
// read a second time from the cache); the backward also needs scratch for partial sums of dw, up to
// 512 x D numbers (in fp64 8 x 512 x D for D from 765 to 1024). Sums have a fixed order.

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kRmsNorm[] = "moonring::rms_norm";

struct RmsNormed {
  at::Tensor y_TD, rstd_T1;
  at::Tensor sum_TD;  // s; undefined if nothing was added
};

// `added_TD` may be undefined: then nothing is added.
RmsNormed RmsNorm(const at::Tensor& x_TD, const at::Tensor& added_TD, double scale,
                  const at::Tensor& weight_D, double eps, at::ScalarType result_dtype);

struct RmsNormWanted {
  bool x = true, weight = true;
  bool added = false;
  at::ScalarType added_dtype = at::kFloat;  // used if `added`
};

struct RmsNormGradients {
  at::Tensor x_TD, added_TD, weight_D;  // undefined if not requested
};

// s_TD: the input of the norm. dsum_TD: the gradient that s gets from its other uses, in s's dtype;
// may be undefined.
RmsNormGradients RmsNormBackward(const at::Tensor& dy_TD, const at::Tensor& s_TD,
                                 const at::Tensor& weight_D, const at::Tensor& rstd_T1,
                                 const at::Tensor& dsum_TD, double scale,
                                 const RmsNormWanted& wanted);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_RMS_NORM_H_
