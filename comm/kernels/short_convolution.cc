#include "comm/kernels/short_convolution.h"

#include <optional>
#include <tuple>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace moonring::kernels {
namespace {

using Tensor = at::Tensor;
using OptionalTensor = std::optional<Tensor>;

OptionalTensor IfDefined(const Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(moonring, library) {
  library.def(
      "short_convolution(Tensor x, Tensor weight, Tensor? bias, Tensor? halo, Tensor documents, "
      "bool silu) -> Tensor");
  library.def(
      "short_convolution_backward(Tensor dy, Tensor x, Tensor weight, Tensor? bias, Tensor? halo, "
      "Tensor documents, bool silu) -> (Tensor dx, Tensor dweight, Tensor dbias, Tensor dhalo)");
}

Tensor ShortConvolution(const ConvolutionTensors& tensors, bool silu) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow(kShortConvolution, "")
                             .typed<Tensor(const Tensor&, const Tensor&, const OptionalTensor&,
                                           const OptionalTensor&, const Tensor&, bool)>();
  return op.call(tensors.x_TC, tensors.weight_CW, IfDefined(tensors.bias_C),
                 IfDefined(tensors.halo_RC), tensors.documents, silu);
}

ConvolutionGradients ShortConvolutionBackward(const Tensor& dy_TC,
                                              const ConvolutionTensors& tensors, bool silu) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("moonring::short_convolution_backward", "")
                             .typed<std::tuple<Tensor, Tensor, Tensor, Tensor>(
                                 const Tensor&, const Tensor&, const Tensor&, const OptionalTensor&,
                                 const OptionalTensor&, const Tensor&, bool)>();
  auto [dx, dweight, dbias, dhalo] =
      op.call(dy_TC, tensors.x_TC, tensors.weight_CW, IfDefined(tensors.bias_C),
              IfDefined(tensors.halo_RC), tensors.documents, silu);
  return {std::move(dx), std::move(dweight), std::move(dbias), std::move(dhalo)};
}

}  // namespace moonring::kernels
