#include "comm/products/products.h"

#include <optional>

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include "comm/products/onednn_products.h"
#include "comm/products/product_scope.h"

namespace moonring::comm {
namespace {

bool ByOneDnn(const at::Tensor& a, const at::Tensor& b) {
  const ProductChoice& choice = CurrentProducts();
  if (choice == ProductChoice{}) return false;
  const std::optional<ProductForm> form = OneDnnForm(a, b);
  return form.has_value() && choice.TakesOneDnn(*form);
}

}  // namespace

at::Tensor Product(const at::Tensor& a, const at::Tensor& b) {
  if (!ByOneDnn(a, b)) return at::mm(a, b);
  at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
  OneDnnProduct(out, a, b, /*beta=*/0.0, /*alpha=*/1.0);
  return out;
}

void ProductInto(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  if (out.scalar_type() == a.scalar_type() && ByOneDnn(a, b))
    return OneDnnProduct(out, a, b, /*beta=*/0.0, /*alpha=*/1.0);
  at::Tensor result = out;
  at::mm_out(result, a, b);
}

void AddProduct(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, double beta,
                double alpha) {
  at::Tensor result = sum;
  if (sum.scalar_type() == a.scalar_type()) {
    if (ByOneDnn(a, b)) return OneDnnProduct(sum, a, b, beta, alpha);
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
