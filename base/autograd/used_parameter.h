#ifndef MOONRING_BASE_AUTOGRAD_USED_PARAMETER_H_
#define MOONRING_BASE_AUTOGRAD_USED_PARAMETER_H_

// A Parameter's weight inside an autograd graph, for code that uses plain LibTorch operators (for
// example a script's module) instead of a custom node. Its gradient is added to the Parameter as
// soon as it is computed.

#include <memory>

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter.h"

namespace moonring::base {

// The whole weight in `dtype`, leased. It requires a gradient if the parameter is trainable and
// autograd is recording. Each use is a separate node, so a weight may be used several times. The
// gradient goes to the Parameter only, not to x.grad, which stays undefined. If the weight was
// moved (parameter_home.h), all ranks must use it and run its backward in the same order.
at::Tensor Use(const std::shared_ptr<Parameter>& parameter, at::ScalarType dtype);

}  // namespace moonring::base

#endif  // MOONRING_BASE_AUTOGRAD_USED_PARAMETER_H_
