#ifndef MOONRING_TESTS_TESTING_PRETEND_DEVICE_LEFT_OUT_H_
#define MOONRING_TESTS_TESTING_PRETEND_DEVICE_LEFT_OUT_H_

// For tests of memory and counts alone, PRETEND_DEVICE_PRODUCTS=zeros: products of matrices, and
// attention, are zeros and cost nothing. What is allocated and asked for is the same. =counted:
// besides, whatever works on a tensor of more than one floating-point number is counted and not
// done, so that a step of a model of any size takes seconds (tests/gpu/roofline.py); its numbers
// mean nothing.

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace moonring::pretend {

bool ProductsAreLeftOut();

// With products left out: an output that is there already, as it is for all that LibTorch's own
// code calls, gets what is added to the product, or zeros. False: there is none.
bool PutZeros(const c10::FunctionSchema& schema, torch::jit::Stack* stack);

// Of the same sizes and strides.
at::Tensor WithoutMemory(const at::Tensor& like, c10::Device device);

// The shapes of a call's results, as LibTorch foretells them; of outputs that are there, too, which
// it may make larger. nullopt: it cannot.
std::optional<torch::jit::Stack> ShapesOf(const c10::OperatorHandle& op,
                                          const std::vector<c10::IValue>& given,
                                          std::vector<at::Tensor>& arguments);

}  // namespace moonring::pretend

#endif  // MOONRING_TESTS_TESTING_PRETEND_DEVICE_LEFT_OUT_H_
