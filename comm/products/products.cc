#include "comm/products/products.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

namespace moonring::comm {

at::Tensor Product(const at::Tensor& a, const at::Tensor& b) { return at::mm(a, b); }

void ProductInto(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  at::Tensor result = out;
  at::mm_out(result, a, b);
}

void AddProduct(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, double beta,
                double alpha) {
  at::Tensor result = sum;
  if (sum.scalar_type() == a.scalar_type()) {
    at::addmm_out(result, sum, a, b, beta, alpha);
    return;
  }
  const at::Tensor product = at::mm(a, b).to(sum.scalar_type());
  if (beta == 0.0) {
    result.copy_(product).mul_(alpha);
  } else {
    result.mul_(beta).add_(product, alpha);
  }
}

}  // namespace moonring::comm
