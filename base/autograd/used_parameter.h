#ifndef MOONRING_BASE_AUTOGRAD_USED_PARAMETER_H_
#define MOONRING_BASE_AUTOGRAD_USED_PARAMETER_H_

// A Parameter's weight inside an autograd graph, for code that uses plain LibTorch operators (for
// example a script's module) instead of a custom autograd node. The weight's gradient is added to
// the Parameter as soon as it is computed.

#include <memory>

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter.h"

namespace moonring::base {

// Returns the whole weight in `dtype`, borrowed from the Parameter (a lease, parameter.h). The
// result requires a gradient if the parameter is trainable and autograd is recording. Each call
// creates a separate node, so a weight may be used several times. The gradient goes to the
// Parameter only, not to x.grad, which stays undefined. If the weight is stored elsewhere
// (parameter_home.h), for example sharded over ranks, all these ranks must make the calls, and run
// their backwards, in the same order.
at::Tensor Use(const std::shared_ptr<Parameter>& parameter, at::ScalarType dtype);

}  // namespace moonring::base

#endif  // MOONRING_BASE_AUTOGRAD_USED_PARAMETER_H_
