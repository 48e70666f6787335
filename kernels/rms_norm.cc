#include "kernels/rms_norm.h"

#include <optional>
#include <tuple>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "kernels/optional_tensor.h"

namespace moonring::kernels {
namespace {

using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

}  // namespace

TORCH_LIBRARY_FRAGMENT(moonring, library) {
  library.def(
      "rms_norm(Tensor x, Tensor? added, float scale, Tensor weight, float eps, ScalarType dtype) "
      "-> (Tensor y, Tensor rstd, Tensor sum)");
  library.def(
      "rms_norm_backward(Tensor dy, Tensor s, Tensor weight, Tensor rstd, Tensor? dsum, "
      "float scale, bool wants_x, bool wants_weight, ScalarType? added_dtype) "
      "-> (Tensor dx, Tensor dadded, Tensor dweight)");
}

RmsNormed RmsNorm(const at::Tensor& x_TD, const at::Tensor& added_TD, double scale,
                  const at::Tensor& weight_D, double eps, at::ScalarType result_dtype) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("moonring::rms_norm", "")
                             .typed<Three(const at::Tensor&, const std::optional<at::Tensor>&,
                                          double, const at::Tensor&, double, at::ScalarType)>();
  auto [y, rstd, sum] = op.call(x_TD, IfDefined(added_TD), scale, weight_D, eps, result_dtype);
  return {std::move(y), std::move(rstd), std::move(sum)};
}

RmsNormGradients RmsNormBackward(const at::Tensor& dy_TD, const at::Tensor& s_TD,
                                 const at::Tensor& weight_D, const at::Tensor& rstd_T1,
                                 const at::Tensor& dsum_TD, double scale,
                                 const RmsNormWanted& wanted) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("moonring::rms_norm_backward", "")
                             .typed<Three(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                          const at::Tensor&, const std::optional<at::Tensor>&,
                                          double, bool, bool, std::optional<at::ScalarType>)>();
  // If dx and dadded are equal, both are one tensor.
  const bool shared = wanted.added && scale == 1.0 && wanted.added_dtype == s_TD.scalar_type();
  auto [dx, dadded, dweight] = op.call(
      dy_TD, s_TD, weight_D, rstd_T1, IfDefined(dsum_TD), scale, wanted.x || shared, wanted.weight,
      wanted.added && !shared ? std::optional(wanted.added_dtype) : std::nullopt);
  if (shared) dadded = dx;
  return {std::move(dx), std::move(dadded), std::move(dweight)};
}

}  // namespace moonring::kernels
