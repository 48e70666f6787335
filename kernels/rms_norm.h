#ifndef MOONRING_KERNELS_RMS_NORM_H_
#define MOONRING_KERNELS_RMS_NORM_H_

// RMSNorm, and the sum before it where there is one, in one pass (operators moonring::rms_norm and
// moonring::rms_norm_backward):
//
//   s = x + scale added (s = x where nothing is added)
//   r = 1/sqrt(mean_D(s^2) + eps),  y = w s r
//   ds = r (dy w - s r mean_D(dy w s r)) + dsum,  dw = sum_T dy s r,  dadded = scale ds
//
// x_TD and y are in one of fp32, bf16, fp16 and fp64, or one of them is in fp32 and the other in
// bf16 or fp16. Arithmetic, w and r are in fp32, or fp64 for fp64. `added` is in the dtype of x or
// of y. Any T and D, zero among them; rows may be any distance apart. Memory traffic: each tensor
// above once (a row is read a second time from the cache); the backward also needs scratch for
// partial sums of dw, up to 512 x D numbers (in fp64 8 x 512 x D for D from 765 to 1024). Sums have
// a fixed order.

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kRmsNorm[] = "moonring::rms_norm";

struct RmsNormed {
  at::Tensor y_TD, rstd_T1;
  at::Tensor sum_TD;  // s; undefined where nothing was added
};

// `added_TD` may be undefined.
RmsNormed RmsNorm(const at::Tensor& x_TD, const at::Tensor& added_TD, double scale,
                  const at::Tensor& weight_D, double eps, at::ScalarType result_dtype);

struct RmsNormWanted {
  bool x = true, weight = true;
  bool added = false;
  at::ScalarType added_dtype = at::kFloat;  // where that is wanted
};

struct RmsNormGradients {
  at::Tensor x_TD, added_TD, weight_D;  // undefined where not wanted
};

// s_TD: what was normed. dsum_TD: the gradient that reaches s from elsewhere, in s's dtype; may be
// undefined.
RmsNormGradients RmsNormBackward(const at::Tensor& dy_TD, const at::Tensor& s_TD,
                                 const at::Tensor& weight_D, const at::Tensor& rstd_T1,
                                 const at::Tensor& dsum_TD, double scale,
                                 const RmsNormWanted& wanted);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_RMS_NORM_H_
