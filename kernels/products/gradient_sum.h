#ifndef MOONRING_KERNELS_PRODUCTS_GRADIENT_SUM_H_
#define MOONRING_KERNELS_PRODUCTS_GRADIENT_SUM_H_

// A weight's gradient, added up by the products that it is made of, in a wider dtype than theirs:
//
//   dW = sum over tiles of rows, micro-batches, ... of dy^T x
//
// Autograd casts a gradient to its input's dtype, so a sum in fp32 cannot come back as that of a
// weight in bf16. Who leases the weight and who multiplies by it share one of these instead: a
// node's backward adds here and gives autograd none, and the sum is taken once the backward is
// done. Nothing is rounded to the weight's dtype in between, and no pass is made over a second
// matrix of the weight's size.
//
// Cost: the products (products.h); memory: the sum. Not for several threads at a time.

#include <memory>

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

class GradientSum {
 public:
  // Sums are made in `dtype`.
  explicit GradientSum(at::ScalarType dtype) : dtype_(dtype) {}

  // Until the next Take, products are added to `sum`, which somebody keeps.
  void AddTo(at::Tensor sum);

  // a b, a [M, K], b [K, N].
  void AddProduct(const at::Tensor& a, const at::Tensor& b);

  // The sum, to which who made it adds himself: parts of a stack of matrices, say. Zeros of that
  // shape, on the device of the options, where there is none yet.
  at::Tensor Whole(at::IntArrayRef sizes, const at::TensorOptions& options);

  at::ScalarType dtype() const { return dtype_; }

  // The sum since the last Take, given away; undefined where there is none, or it is somebody's.
  at::Tensor Take();

 private:
  const at::ScalarType dtype_;
  at::Tensor sum_MN_;
  bool kept_elsewhere_ = false;
};

// The gradient a b of a weight: added to `sum`, and none to hand on; the product where there is no
// sum.
at::Tensor GradientProduct(const std::shared_ptr<GradientSum>& sum, const at::Tensor& a,
                           const at::Tensor& b);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PRODUCTS_GRADIENT_SUM_H_
