#ifndef MOONRING_KERNELS_CHOICE_H_
#define MOONRING_KERNELS_CHOICE_H_

// Chooses whether a result is computed by one operator of this folder or by several LibTorch
// operators. The environment variable MOONRING_KERNELS decides:
//
//   fused       (the default) tensors on a GPU use the operators of this folder, if the program has
//               them: a program built with --config=cuda, or the program of a test
//   composed    LibTorch's operators only: slower, and a second implementation to compare with

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"

namespace moonring::kernels {

// Parses the value of MOONRING_KERNELS; null means it is not set. INVALID_ARGUMENT for an unknown
// value.
absl::StatusOr<bool> FusedFrom(const char* word);

// Whether to use `op` (such as "moonring::rms_norm") for `tensor`. Throws if MOONRING_KERNELS has
// an unknown value.
bool UseKernel(const at::Tensor& tensor, const char* op);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_CHOICE_H_
