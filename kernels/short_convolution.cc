#include "kernels/short_convolution.h"

#include <optional>
#include <tuple>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "kernels/optional_tensor.h"

namespace moonring::kernels {

TORCH_LIBRARY_FRAGMENT(moonring, library) {
  library.def(
      "short_convolution(Tensor x, Tensor weight, Tensor? bias, Tensor? halo, Tensor documents, "
      "bool silu) -> Tensor");
  library.def(
      "short_convolution_backward(Tensor dy, Tensor x, Tensor weight, Tensor? bias, Tensor? halo, "
      "Tensor documents, bool silu) -> (Tensor dx, Tensor dweight, Tensor dbias, Tensor dhalo)");
}

at::Tensor ShortConvolution(const ConvolutionTensors& tensors, bool silu) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow(kShortConvolution, "")
          .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                            const std::optional<at::Tensor>&, const at::Tensor&, bool)>();
  return op.call(tensors.x_TC, tensors.weight_CW, IfDefined(tensors.bias_C),
                 IfDefined(tensors.halo_RC), tensors.documents, silu);
}

ConvolutionGradients ShortConvolutionBackward(const at::Tensor& dy_TC,
                                              const ConvolutionTensors& tensors, bool silu) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("moonring::short_convolution_backward", "")
                             .typed<std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>(
                                 const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                 const std::optional<at::Tensor>&, const std::optional<at::Tensor>&,
                                 const at::Tensor&, bool)>();
  auto [dx, dweight, dbias, dhalo] =
      op.call(dy_TC, tensors.x_TC, tensors.weight_CW, IfDefined(tensors.bias_C),
              IfDefined(tensors.halo_RC), tensors.documents, silu);
  return {std::move(dx), std::move(dweight), std::move(dbias), std::move(dhalo)};
}

}  // namespace moonring::kernels
