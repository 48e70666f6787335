#include "kernels/products/grouped_products.h"

#include <cstdint>

#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#ifdef MOONRING_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

namespace moonring::kernels {
namespace {

// Alignment of rows in bf16, required by the kernel's tile copies; and the maximum number of
// groups.
constexpr int64_t kAlignedBytes = 16, kAlignedNumbers = 8, kMostGroups = 1023;

// On other GPUs LibTorch 2.11 runs one product per group or, with compute capability 10, returns an
// undefined gradient for experts without rows (pytorch#172439).
bool HasKernel([[maybe_unused]] const c10::Device& device) {
#ifdef MOONRING_CUDA
  return at::cuda::getDeviceProperties(device.index())->major == 9;
#else
  return true;  // a test's simulated device (tests/testing/pretend_device)
#endif
}

// The stride of a single row has no meaning, but the operator requires the same stride as for many
// rows.
at::Tensor Rows(const at::Tensor& x) {
  return x.contiguous().as_strided(x.sizes(), {x.size(1), 1});
}

}  // namespace

bool TakesGroups(const at::Tensor& stack_GKM) {
  return stack_GKM.is_cuda() && stack_GKM.scalar_type() == at::kBFloat16 && stack_GKM.dim() == 3 &&
         stack_GKM.is_contiguous() && stack_GKM.numel() > 0 && stack_GKM.size(0) <= kMostGroups &&
         stack_GKM.size(1) % kAlignedNumbers == 0 && stack_GKM.size(2) % kAlignedNumbers == 0 &&
         reinterpret_cast<uintptr_t>(stack_GKM.const_data_ptr()) % kAlignedBytes == 0 &&
         HasKernel(stack_GKM.device());
}

at::Tensor GroupedProduct(const at::Tensor& a_NK, const at::Tensor& stack_GKM,
                          const at::Tensor& end_G) {
  if (a_NK.size(0) == 0) return at::zeros({0, stack_GKM.size(2)}, a_NK.options());
  return at::_grouped_mm(Rows(a_NK), stack_GKM, end_G);
}

at::Tensor GroupedGradient(const at::Tensor& a_NK, const at::Tensor& b_NM,
                           const at::Tensor& end_G) {
  if (a_NK.size(0) == 0)
    return at::zeros({end_G.size(0), a_NK.size(1), b_NM.size(1)}, a_NK.options());
  // This is the only pair of layouts for which the kernel supports groups of any size, including 0.
  return at::_grouped_mm(Rows(a_NK).t(), Rows(b_NM), end_G);
}

at::Tensor GroupedSum(const at::Tensor& a_NK, const at::Tensor& end_G) {
  const at::Tensor ones_N8 = at::ones({a_NK.size(0), kAlignedNumbers}, a_NK.options());
  return GroupedGradient(ones_N8, a_NK, end_G).select(1, 0).contiguous();
}

}  // namespace moonring::kernels
