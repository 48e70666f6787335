#ifndef MOONRING_TESTS_TESTING_PRETEND_DEVICE_KERNELS_H_
#define MOONRING_TESTS_TESTING_PRETEND_DEVICE_KERNELS_H_

#include <functional>
#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace moonring::pretend {

// Any operator on tensors of the device, by the CPU's kernel over the same bytes.
void OnCpu(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// The same by another way of making its results: `run` takes the arguments from the stack and puts
// tensors of the device there.
void Through(const c10::OperatorHandle& op, torch::jit::Stack* stack,
             const std::function<void()>& run);

// Whether a product reads an argument of this name by tensor cores, in TF32 where that is on.
bool IsOperand(const std::string& name, const std::string& argument);

// In TF32 by truncation, the worse of what cuBLAS may do.
at::Tensor Truncated(const at::Tensor& x);

}  // namespace moonring::pretend

#endif  // MOONRING_TESTS_TESTING_PRETEND_DEVICE_KERNELS_H_
