#ifndef MOONRING_TESTS_TESTING_PRETEND_DEVICE_OPERATORS_H_
#define MOONRING_TESTS_TESTING_PRETEND_DEVICE_OPERATORS_H_

#include <functional>
#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace moonring::pretend {

// Runs an operator on tensors of the device, by the CPU kernel over the same bytes.
void OnCpu(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// Runs an operator with another implementation: `run` takes the arguments from the stack and pushes
// result tensors of the device.
void Through(const c10::OperatorHandle& op, torch::jit::Stack* stack,
             const std::function<void()>& run);

// Returns whether tensor cores read `argument` of the product `name`, so that it is rounded to TF32
// if that is enabled.
bool IsOperand(const std::string& name, const std::string& argument);

// Returns x rounded to TF32 by truncation, which is less exact than other roundings that cuBLAS may
// use.
at::Tensor Truncated(const at::Tensor& x);

}  // namespace moonring::pretend

#endif  // MOONRING_TESTS_TESTING_PRETEND_DEVICE_OPERATORS_H_
