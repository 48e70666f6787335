#ifndef MOONRING_KERNELS_PRODUCTS_GRADIENT_SUM_H_
#define MOONRING_KERNELS_PRODUCTS_GRADIENT_SUM_H_

// Accumulates a weight's gradient from matmuls, in a wider dtype than their inputs':
//
//   dW = sum over tiles of rows, micro-batches, ... of dy^T x,  for y = x W^T
//
// Autograd casts a gradient to its input's dtype, so it cannot return an fp32 sum for a bf16
// weight. Instead the code that provides the weight and the code that multiplies by it share a
// GradientSum: an autograd node's backward adds to the GradientSum and returns no gradient to
// autograd, and the sum is taken after the backward. Nothing is rounded to the weight's dtype in
// between, and no second matrix of the weight's size is needed.
//
// Cost: the matmuls (products.h); memory: the sum. Not thread-safe.

#include <memory>

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

class GradientSum {
 public:
  // The sum is stored in `dtype`.
  explicit GradientSum(at::ScalarType dtype) : dtype_(dtype) {}

  // Until the next Take, products are added to `sum`, which the caller keeps.
  void AddTo(at::Tensor sum);

  // Adds a b, with a [M, K], b [K, N].
  void AddProduct(const at::Tensor& a, const at::Tensor& b);

  // The sum itself, for callers that add to it directly, for example to slices of a stack of
  // matrices. If there is no sum yet, it is created as zeros of that shape, on the device of the
  // options.
  at::Tensor Whole(at::IntArrayRef sizes, const at::TensorOptions& options);

  at::ScalarType dtype() const { return dtype_; }

  // Returns what was added since the last Take, and forgets it; undefined if nothing was added, or
  // if the products were added to the tensor of AddTo.
  at::Tensor Take();

 private:
  const at::ScalarType dtype_;
  at::Tensor sum_MN_;
  bool kept_elsewhere_ = false;
};

// Computes a weight's gradient a b. Adds it to `sum` and returns an undefined tensor; if `sum` is
// null, returns the gradient.
at::Tensor GradientProduct(const std::shared_ptr<GradientSum>& sum, const at::Tensor& a,
                           const at::Tensor& b);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PRODUCTS_GRADIENT_SUM_H_
