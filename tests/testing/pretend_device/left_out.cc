#include "tests/testing/pretend_device/left_out.h"

#include <cstdlib>
#include <string>

#include <ATen/ops/empty_strided.h>

#include "tests/testing/pretend_device/memory.h"

namespace moonring::pretend {

bool ProductsAreLeftOut() {
  static const bool left_out = [] {
    const char* const text = std::getenv("PRETEND_DEVICE_PRODUCTS");
    return text != nullptr && std::string(text) == "zeros";
  }();
  return left_out || LargeIsLeftOut();
}

bool PutZeros(const c10::FunctionSchema& schema, torch::jit::Stack* stack) {
  const size_t arguments = schema.arguments().size(), first = stack->size() - arguments;
  const std::optional<int> beta = schema.argumentIndexWithName("beta");  // of what is added
  const bool adds = beta.has_value() && (*stack)[first + *beta].toScalar().toDouble() != 0;
  for (size_t i = 0; i < arguments; ++i) {
    const c10::AliasInfo* const alias = schema.arguments()[i].alias_info();
    if (alias == nullptr || !alias->isWrite()) continue;
    const at::Tensor out = (*stack)[first + i].toTensor(), self = (*stack)[first].toTensor();
    if (!adds) out.zero_();
    if (adds && !out.is_same(self)) out.copy_(self);
    torch::jit::drop(*stack, arguments);
    stack->emplace_back(out);
    return true;
  }
  return false;
}

at::Tensor WithoutMemory(const at::Tensor& like, c10::Device device) {
  return at::empty_strided(like.sizes(), like.strides(), like.options().device(device));
}

std::optional<torch::jit::Stack> ShapesOf(const c10::OperatorHandle& op,
                                          const std::vector<c10::IValue>& given,
                                          std::vector<at::Tensor>& arguments) {
  const auto shape_of = [](const at::Tensor& tensor) {
    return tensor.defined() ? WithoutMemory(tensor, c10::kMeta) : tensor;
  };
  torch::jit::Stack shapes;
  for (const c10::IValue& value : given) {
    if (value.isOptionalTensorList()) return std::nullopt;
    arguments.push_back(value.isTensor() ? shape_of(value.toTensor()) : at::Tensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& each : value.toTensorVector()) list.push_back(shape_of(each));
      shapes.emplace_back(list);
    } else {
      shapes.push_back(value.isTensor() ? c10::IValue(arguments.back()) : value);
    }
  }
  try {
    op.callBoxed(&shapes);
  } catch (const c10::Error&) {
    return std::nullopt;
  }
  return shapes;
}

}  // namespace moonring::pretend
