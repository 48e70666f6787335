#ifndef MOONRING_KERNELS_OPTIONAL_TENSOR_H_
#define MOONRING_KERNELS_OPTIONAL_TENSOR_H_

#include <optional>

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

// A tensor as an operator's schema has it ("Tensor?"): none where ours is undefined.
inline std::optional<at::Tensor> IfDefined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_OPTIONAL_TENSOR_H_
