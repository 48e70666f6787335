#ifndef MOONRING_TESTS_TESTING_PRETEND_DEVICE_KERNELS_H_
#define MOONRING_TESTS_TESTING_PRETEND_DEVICE_KERNELS_H_

#include <functional>

#include <ATen/core/dispatch/Dispatcher.h>

namespace moonring::pretend {

// Any operator on tensors of the device, by the CPU's kernel over the same bytes.
void OnCpu(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// The same by `run`, which finds the arguments on the stack as the CPU's tensors and leaves the
// results there in their place: for what has no kernel on the CPU.
void OnCpuBy(const std::function<void()>& run, const c10::OperatorHandle& op,
             torch::jit::Stack* stack);

// For tests of memory and counts alone, PRETEND_DEVICE_PRODUCTS=zeros: products of matrices, and
// attention, are zeros and cost nothing. What is allocated and asked for is the same.
bool ProductsAreLeftOut();

}  // namespace moonring::pretend

#endif  // MOONRING_TESTS_TESTING_PRETEND_DEVICE_KERNELS_H_
