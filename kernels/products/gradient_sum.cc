#include "kernels/products/gradient_sum.h"

#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "kernels/products/products.h"

namespace moonring::kernels {

void GradientSum::AddTo(at::Tensor sum) {
  sum_MN_ = std::move(sum);
  kept_elsewhere_ = true;
}

void GradientSum::AddProduct(const at::Tensor& a, const at::Tensor& b) {
  const bool first = !sum_MN_.defined();
  if (first) sum_MN_ = at::empty({a.size(0), b.size(1)}, a.options().dtype(dtype_));
  kernels::AddProduct(sum_MN_, a, b, /*beta=*/first ? 0.0 : 1.0);
}

at::Tensor GradientSum::Whole(at::IntArrayRef sizes, const at::TensorOptions& options) {
  if (!sum_MN_.defined()) sum_MN_ = at::zeros(sizes, options.dtype(dtype_));
  TORCH_CHECK(sum_MN_.sizes() == sizes, "gradient sum: of shape ", sum_MN_.sizes(), ", expected ",
              sizes);
  return sum_MN_;
}

at::Tensor GradientSum::Take() {
  at::Tensor sum = std::exchange(sum_MN_, at::Tensor());
  return std::exchange(kept_elsewhere_, false) ? at::Tensor() : sum;
}

at::Tensor GradientProduct(const std::shared_ptr<GradientSum>& sum, const at::Tensor& a,
                           const at::Tensor& b) {
  if (sum == nullptr) return Product(a, b);
  sum->AddProduct(a, b);
  return at::Tensor();
}

}  // namespace moonring::kernels
