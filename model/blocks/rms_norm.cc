#include "model/blocks/rms_norm.h"

#include <utility>

#include <ATen/TensorOperators.h>

#include "kernels/choice.h"
#include "kernels/rms_norm.h"

namespace moonring::model {

bool HasRmsNormKernel(const at::Tensor& x) { return kernels::UseKernel(x, kernels::kRmsNorm); }

NormedRows NormRows(const at::Tensor& x_TD, const at::Tensor& weight_D, double eps,
                    at::ScalarType result_dtype) {
  if (HasRmsNormKernel(x_TD)) {
    kernels::RmsNormed made =
        kernels::RmsNorm(x_TD, at::Tensor(), 1.0, weight_D, eps, result_dtype);
    return {std::move(made.y_TD), std::move(made.rstd_T1)};
  }
  const at::Tensor x = x_TD.to(weight_D.scalar_type());
  at::Tensor rstd = x.square().mean(-1, /*keepdim=*/true).add_(eps).rsqrt_();
  return {(x * rstd).mul_(weight_D).to(result_dtype), std::move(rstd)};
}

at::Tensor NormRowsAgain(const at::Tensor& x_TD, const at::Tensor& weight_D,
                         const at::Tensor& rstd_T1, double eps, at::ScalarType result_dtype) {
  // The kernel recomputes the sum of squares, which costs no extra memory traffic.
  if (HasRmsNormKernel(x_TD)) return NormRows(x_TD, weight_D, eps, result_dtype).y_TD;
  return (x_TD * rstd_T1).mul_(weight_D).to(result_dtype);
}

NormGradients NormRowsBackward(const at::Tensor& dy_TD, const at::Tensor& x_TD,
                               const at::Tensor& weight_D, const at::Tensor& rstd_T1, bool needs_x,
                               bool needs_weight) {
  if (HasRmsNormKernel(x_TD)) {
    kernels::RmsNormGradients made = kernels::RmsNormBackward(
        dy_TD, x_TD, weight_D, rstd_T1, at::Tensor(), 1.0, {.x = needs_x, .weight = needs_weight});
    return {std::move(made.x_TD), std::move(made.weight_D)};
  }
  NormGradients gradients;
  const at::Tensor dy = dy_TD.to(weight_D.scalar_type());
  at::Tensor normed = x_TD * rstd_T1;
  at::Tensor product = dy * normed;
  if (needs_weight) gradients.weight_D = product.sum(0);
  if (!needs_x) return gradients;
  const at::Tensor mean = product.mul_(weight_D).mean(-1, /*keepdim=*/true);
  product.reset();
  gradients.x_TD = (dy * weight_D).sub_(normed.mul_(mean)).mul_(rstd_T1).to(x_TD.scalar_type());
  return gradients;
}

}  // namespace moonring::model
