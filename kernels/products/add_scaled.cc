#include "kernels/products/add_scaled.h"

#include <ATen/TensorOperators.h>

namespace moonring::kernels {

void AddScaled(at::Tensor sum, const at::Tensor& product, double beta, double alpha) {
  if (beta == 0.0) {
    sum.copy_(product);
    if (alpha != 1.0) sum.mul_(alpha);
  } else {
    if (beta != 1.0) sum.mul_(beta);
    sum.add_(product, alpha);
  }
}

}  // namespace moonring::kernels
