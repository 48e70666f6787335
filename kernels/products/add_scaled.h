#ifndef MOONRING_KERNELS_PRODUCTS_ADD_SCALED_H_
#define MOONRING_KERNELS_PRODUCTS_ADD_SCALED_H_

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

// sum <- beta sum + alpha product, for products that cannot be accumulated into `sum` directly;
// `sum` may have a wider dtype. If beta is 0, `sum` is not read.
void AddScaled(at::Tensor sum, const at::Tensor& product, double beta, double alpha);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PRODUCTS_ADD_SCALED_H_
