#ifndef MOONRING_KERNELS_OPTIONAL_TENSOR_H_
#define MOONRING_KERNELS_OPTIONAL_TENSOR_H_

#include <optional>

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

// Converts to an optional argument of an operator's schema ("Tensor?"): nullopt if the tensor is
// undefined.
inline std::optional<at::Tensor> IfDefined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_OPTIONAL_TENSOR_H_
