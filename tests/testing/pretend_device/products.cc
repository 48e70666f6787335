// Matrix products that CUDA computes differently from the CPU:
//
//   addmm.dtype_out    exists for CUDA only: cuBLAS multiplies 16-bit numbers exactly and adds the
//                      products in fp32; with beta 0 it does not read the addend
//   baddbmm.dtype_out  the same in batches; the result itself is the addend
//   fp32 products      use TF32 if LibTorch's switch is on: operands lose 13 bits
//   _grouped_mm        one kernel for bf16, on compute capability 9.0, with its conditions; for any
//                      other dtype the host waits for the groups' ends

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

#include "tests/testing/pretend_device/counts.h"
#include "tests/testing/pretend_device/operators.h"
#include "tests/testing/pretend_device/timeline.h"

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
    TORCH_CHECK(out.dim() == 2 || self.const_data_ptr() == out.const_data_ptr(),
                "baddbmm.dtype_out adds to its result, whatever else it is given");
    const double beta = argument(4).toScalar().toDouble(),
                 alpha = argument(5).toScalar().toDouble();
    at::Tensor product = at::matmul(a.to(at::kFloat), b.to(at::kFloat)).mul_(alpha);
    out.copy_(beta == 0.0 ? product : product.add_(self, beta));
    torch::jit::drop(*stack, kArguments);
    stack->emplace_back(out);
  };
  const at::AutoDispatchBelowADInplaceOrView below;
  Through(op, stack, run);
}

void MultiplyGroups(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                    torch::jit::Stack* stack) {
  constexpr size_t kArguments = 5;
  const at::Tensor a = torch::jit::peek(*stack, 0, kArguments).toTensor(),
                   b = torch::jit::peek(*stack, 1, kArguments).toTensor();
  const c10::IValue& ends = torch::jit::peek(*stack, 2, kArguments);
  for (const at::Tensor& each : {a, b})
    TORCH_CHECK(reinterpret_cast<uintptr_t>(each.const_data_ptr()) % 16 == 0,
                "expected data_ptr to be aligned to 16 bytes");
  if (a.scalar_type() == at::kBFloat16 && b.scalar_type() == at::kBFloat16) {
    const int64_t groups = ends.isTensor() ? ends.toTensor().size(0) : a.size(0);
    TORCH_CHECK(groups < 1024, "Can't process more than 1024 groups");
    // With other layouts the kernel does not accept a group without rows; it asserts this on the
    // device.
    TORCH_CHECK(
        a.dim() == 3 || b.dim() == 3 || (a.stride(-1) != 1 && b.stride(-1) == 1),
        "_grouped_mm of rows by rows: expected the columns of one and the rows of the other");
  } else {
    CountSynchronization("_grouped_mm");
    HostWaits(c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(a.device()));
  }
  OnCpu(op, keys, stack);
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("_grouped_mm", torch::CppFunction::makeFromBoxedFunction<&MultiplyGroups>());
  for (const char* name : {"addmm.dtype_out", "baddbmm.dtype_out"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&AddWideProduct>());
}

}  // namespace

bool IsOperand(const std::string& name, const std::string& argument) {
  if (argument == "self") return name == "aten::mm" || name == "aten::bmm" || name == "aten::mv";
  static const std::vector<std::string> always = {"mat1", "mat2", "batch1", "batch2", "mat", "vec"};
  return std::find(always.begin(), always.end(), argument) != always.end();
}

at::Tensor Truncated(const at::Tensor& x) {
  return x.contiguous().view(at::kInt).bitwise_and(~0x1FFF).view(at::kFloat);
}

}  // namespace moonring::pretend
