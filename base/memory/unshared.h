#ifndef MOONRING_BASE_MEMORY_UNSHARED_H_
#define MOONRING_BASE_MEMORY_UNSHARED_H_

// Whether a tensor's memory is its holder's alone, who may then write over it.
//
// Holders are counted, of the tensor and of its storage: what autograd's graph saved, a view, an
// alias or a variable of anybody's is one of them. Only of a tensor that autograd holds as a view
// of another is that other no second holder, if nobody has it besides. Costs a few reads.

#include <ATen/core/Tensor.h>

namespace moonring::base {

// Of a defined tensor that the caller holds once.
bool IsUnshared(const at::Tensor& tensor);

}  // namespace moonring::base

#endif  // MOONRING_BASE_MEMORY_UNSHARED_H_
