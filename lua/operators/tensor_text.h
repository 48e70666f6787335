#ifndef MOONRING_LUA_OPERATORS_TENSOR_TEXT_H_
#define MOONRING_LUA_OPERATORS_TENSOR_TEXT_H_

// A tensor as text, in PyTorch's format: four digits, a common width, exponents if magnitudes
// differ widely, and the first and last three of a dim if there are more than a thousand elements.
//
//   tensor([[1.0000, 2.5000],
//           [3.0000, 4.0000]], dtype=fp64, grad_fn=<MulBackward0>)
//
// dtypes and devices are printed with their names in scripts.

#include <string>

#include <ATen/core/Tensor.h>

namespace moonring::lua {

std::string TensorText(const at::Tensor& tensor);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_OPERATORS_TENSOR_TEXT_H_
