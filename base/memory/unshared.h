#ifndef MOONRING_BASE_MEMORY_UNSHARED_H_
#define MOONRING_BASE_MEMORY_UNSHARED_H_

// Whether the caller is the only user of a tensor's memory, so that it may be overwritten.
//
// References to the tensor and to its storage are counted, such as tensors saved by autograd,
// views, aliases or other variables. For a tensor that autograd treats as a view, its base does not
// count as a second user if nothing else refers to the base. Costs a few reads.

#include <ATen/core/Tensor.h>

namespace moonring::base {

// `tensor` is defined, and the caller has exactly one reference to it.
bool IsUnshared(const at::Tensor& tensor);

}  // namespace moonring::base

#endif  // MOONRING_BASE_MEMORY_UNSHARED_H_
