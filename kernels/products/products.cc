#include "kernels/products/products.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include "kernels/products/add_scaled.h"
#include "kernels/products/few_rows.h"
#include "kernels/products/onednn_products.h"
#include "kernels/products/product_scope.h"

namespace moonring::kernels {
namespace {

// Rows of a sum in a wider dtype whose product a CPU computes at a time: the product is then added
// from the cache, and its memory is reused. On an EPYC a [49152, 227] x [227, 576] product in bf16
// takes 0.4 of the time of the whole at once.
constexpr int64_t kBlockElements = int64_t{1} << 20, kRowsAtOnce = 256;

// Elements of b that are converted to fp32 at a time when a CPU multiplies fp16: 16 MiB.
constexpr int64_t kWidenedElements = int64_t{1} << 22;

bool ByOneDnn(const at::Tensor& a, const at::Tensor& b) {
  const ProductChoice& choice = CurrentProducts();
  if (choice == ProductChoice{}) return false;
  const std::optional<ProductForm> form = OneDnnForm(a, b);
  return form.has_value() && choice.TakesOneDnn(*form);
}

bool ByFewRows(const at::Tensor& sum_of, const at::Tensor& a, const at::Tensor& b) {
  return CurrentProducts().few_rows && sum_of.scalar_type() == a.scalar_type() && IsOfFewRows(a, b);
}

// For most CPUs LibTorch's fp16 matmul is a scalar loop.
bool IsWidened(const at::Tensor& a) { return a.is_cpu() && a.scalar_type() == at::kHalf; }

// out <- beta out + alpha a b in blocks of columns, so that the whole of b (a head's weight) is
// never stored in fp32. The blocks do not depend on the number of rows of a.
void WidenedInto(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, double beta,
                 double alpha) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0) &&
                  b.scalar_type() == at::kHalf &&
                  out.sizes() == at::IntArrayRef({a.size(0), b.size(1)}),
              "products: ", a.sizes(), " of ", a.scalar_type(), " times ", b.sizes(), " of ",
              b.scalar_type(), " into ", out.sizes());
  const at::Tensor wide_a = a.to(at::kFloat);
  const int64_t columns = b.size(1),
                step = std::max<int64_t>(kRowsAtOnce,
                                         kWidenedElements / std::max<int64_t>(1, b.size(0)));
  for (int64_t begin = 0; begin < columns; begin += step) {
    const int64_t count = std::min(step, columns - begin);
    const at::Tensor wide_b = b.narrow(1, begin, count).to(at::kFloat),
                     part = out.narrow(1, begin, count);
    if (part.scalar_type() == at::kFloat) {
      AddProduct(part, wide_a, wide_b, beta, alpha);
    } else if (beta == 0.0 && alpha == 1.0) {
      part.copy_(Product(wide_a, wide_b));
    } else {
      const at::Tensor sum = part.to(at::kFloat);
      AddProduct(sum, wide_a, wide_b, beta, alpha);
      part.copy_(sum);
    }
  }
}

}  // namespace

at::Tensor Product(const at::Tensor& a, const at::Tensor& b) {
  if (IsWidened(a)) {
    at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
    WidenedInto(out, a, b, /*beta=*/0.0, /*alpha=*/1.0);
    return out;
  }
  if (ByFewRows(a, a, b)) {
    at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
    FewRowsProduct(out, a, b, /*beta=*/0.0, /*alpha=*/1.0);
    return out;
  }
  if (!ByOneDnn(a, b)) return at::mm(a, b);
  at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
  OneDnnProduct(out, a, b, /*beta=*/0.0, /*alpha=*/1.0);
  return out;
}

void ProductInto(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  if (IsWidened(a)) return WidenedInto(out, a, b, /*beta=*/0.0, /*alpha=*/1.0);
  if (ByFewRows(out, a, b)) return FewRowsProduct(out, a, b, /*beta=*/0.0, /*alpha=*/1.0);
  if (out.scalar_type() == a.scalar_type() && ByOneDnn(a, b))
    return OneDnnProduct(out, a, b, /*beta=*/0.0, /*alpha=*/1.0);
  at::Tensor result = out;
  TORCH_CHECK(
      a.dim() == 2 && b.dim() == 2 && out.sizes() == at::IntArrayRef({a.size(0), b.size(1)}),
      "product: ", a.sizes(), " times ", b.sizes(), " into ", out.sizes());
  at::mm_out(result, a, b);
}

void AddProduct(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, double beta,
                double alpha) {
  if (IsWidened(a)) return WidenedInto(sum, a, b, beta, alpha);
  if (ByFewRows(sum, a, b)) return FewRowsProduct(sum, a, b, beta, alpha);
  at::Tensor result = sum;
  if (sum.scalar_type() == a.scalar_type()) {
    if (ByOneDnn(a, b)) return OneDnnProduct(sum, a, b, beta, alpha);
    at::addmm_out(result, sum, a, b, beta, alpha);
    return;
  }
  if (!sum.is_cpu()) {
    // cuBLAS accumulates products of 16-bit numbers in fp32, here directly in the sum.
    at::addmm_outf(sum, a, b, sum.scalar_type(), beta, alpha, result);
    return;
  }
  const int64_t rows = sum.size(0),
                step = std::max<int64_t>(kRowsAtOnce,
                                         kBlockElements / std::max<int64_t>(1, sum.size(1)));
  for (int64_t begin = 0; begin < rows; begin += step) {
    const int64_t count = std::min(step, rows - begin);
    AddScaled(sum.narrow(0, begin, count), at::mm(a.narrow(0, begin, count), b), beta, alpha);
  }
}

void AddProducts(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, double beta,
                 double alpha) {
  at::Tensor result = sum;
  if (sum.scalar_type() == a.scalar_type()) {
    at::baddbmm_out(result, sum, a, b, beta, alpha);
  } else if (sum.is_cpu()) {
    at::baddbmm_out(result, sum, a.to(sum.scalar_type()), b.to(sum.scalar_type()), beta, alpha);
  } else {
    at::baddbmm_outf(sum, a, b, sum.scalar_type(), beta, alpha, result);
  }
}

}  // namespace moonring::kernels
