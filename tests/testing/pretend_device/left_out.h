#ifndef MOONRING_TESTS_TESTING_PRETEND_DEVICE_LEFT_OUT_H_
#define MOONRING_TESTS_TESTING_PRETEND_DEVICE_LEFT_OUT_H_

// Modes that skip computations, only for tests of memory and counts. PRETEND_DEVICE_PRODUCTS=zeros:
// matrix products and attention return zeros without computing; allocations and calls are
// unchanged. PRETEND_DEVICE_PRODUCTS=counted: in addition, all work on tensors of more than one
// floating-point number is counted and skipped, so that a step of a model of any size takes seconds
// (tests/gpu/roofline.py). The resulting numbers are meaningless.

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace moonring::pretend {

bool ProductsAreLeftOut();

// Computes a skipped product that has an output argument, as in all calls from LibTorch's own code:
// fills the output with the product's addend, or with zeros. Returns false if there is no output
// argument.
bool PutZeros(const c10::FunctionSchema& schema, torch::jit::Stack* stack);

// Returns a tensor with the sizes and strides of `like` but without memory.
at::Tensor WithoutMemory(const at::Tensor& like, c10::Device device);

// Returns the shapes of a call's results, as inferred by LibTorch; also those of output arguments,
// which the operator may resize. nullopt if LibTorch cannot infer them.
std::optional<torch::jit::Stack> ShapesOf(const c10::OperatorHandle& op,
                                          const std::vector<c10::IValue>& given,
                                          std::vector<at::Tensor>& arguments);

}  // namespace moonring::pretend

#endif  // MOONRING_TESTS_TESTING_PRETEND_DEVICE_LEFT_OUT_H_
