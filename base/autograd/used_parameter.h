#ifndef MOONRING_BASE_AUTOGRAD_USED_PARAMETER_H_
#define MOONRING_BASE_AUTOGRAD_USED_PARAMETER_H_

// A Parameter's weight inside an autograd graph, for code that is written with a framework's plain
// operators (a script's module, say) and not as a node of its own: the gradient that comes to it
// goes on into the Parameter, at once.

#include <memory>

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter.h"

namespace moonring::base {

// The whole weight in `dtype`, leased. It requires a gradient where the parameter learns and
// gradients are recorded; each use is a node of its own, so that a weight may be used several
// times. No gradient of it reaches a tensor: x.grad stays undefined. A weight that is away
// (parameter_home.h) is leased, and its gradient handed over, by all ranks in one order.
at::Tensor Use(const std::shared_ptr<Parameter>& parameter, at::ScalarType dtype);

}  // namespace moonring::base

#endif  // MOONRING_BASE_AUTOGRAD_USED_PARAMETER_H_
