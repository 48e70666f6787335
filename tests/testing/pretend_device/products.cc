// addmm.dtype_out, which LibTorch has for CUDA alone: cuBLAS multiplies numbers of 16 bits exactly,
// and adds the products up in fp32, in a sum that it does not read where beta is 0.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include "tests/testing/pretend_device/kernels.h"

namespace moonring::pretend {
namespace {

void AddWideProduct(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  constexpr size_t kArguments = 7;
  const auto run = [stack] {
    const auto argument = [stack](size_t i) -> const c10::IValue& {
      return torch::jit::peek(*stack, i, kArguments);
    };
    const at::Tensor self = argument(0).toTensor(), a = argument(1).toTensor(),
                     b = argument(2).toTensor(), out = argument(6).toTensor();
    TORCH_CHECK(argument(3).toScalarType() == at::kFloat && out.scalar_type() == at::kFloat &&
                    self.scalar_type() == at::kFloat && a.scalar_type() == b.scalar_type() &&
                    a.element_size() == 2,
                "out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs");
    const double beta = argument(4).toScalar().toDouble(),
                 alpha = argument(5).toScalar().toDouble();
    at::Tensor product = at::mm(a.to(at::kFloat), b.to(at::kFloat)).mul_(alpha);
    out.copy_(beta == 0.0 ? product : product.add_(self, beta));
    torch::jit::drop(*stack, kArguments);
    stack->emplace_back(out);
  };
  const at::AutoDispatchBelowADInplaceOrView below;
  Through(op, stack, run);
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("addmm.dtype_out", torch::CppFunction::makeFromBoxedFunction<&AddWideProduct>());
}

}  // namespace
}  // namespace moonring::pretend
