#ifndef MOONRING_KERNELS_CHOICE_H_
#define MOONRING_KERNELS_CHOICE_H_

// Whether an operator of this folder makes a result, or several of LibTorch's do in its place. By
// MOONRING_KERNELS in the environment:
//
//   fused       (the default) tensors on a GPU are given to the operators of this folder, where the
//               program has them: one that is built with --config=cuda, or a test's
//   composed    to LibTorch's own alone: slower, and a second source for the numbers

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"

namespace moonring::kernels {

// Of MOONRING_KERNELS' value; null: it is not set. INVALID_ARGUMENT for a word it does not know.
absl::StatusOr<bool> FusedFrom(const char* word);

// Whether `op` ("moonring::rms_norm") is to make what `tensor` is used for. Throws where
// MOONRING_KERNELS has another word.
bool UseKernel(const at::Tensor& tensor, const char* op);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_CHOICE_H_
