#include "kernels/products/onednn_products.h"

#include <algorithm>
#include <vector>

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "base/threads/parallel_tasks.h"
#include "base/threads/small_work.h"
#include "kernels/products/add_scaled.h"

// result <- beta result + alpha a b. LibTorch exports this function, but declares it in no public
// header.
namespace at::native {
void mkldnn_matmul(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result, float beta,
                   float alpha);
}  // namespace at::native

namespace moonring::kernels {
namespace {

bool IsTransposed(const at::Tensor& matrix) {
  return matrix.stride(1) != 1 && matrix.stride(0) == 1;
}

bool HasLayout(const at::Tensor& matrix) { return matrix.stride(1) == 1 || IsTransposed(matrix); }

// The size of equal sections of `size`, at most `most`, rounded up to whole vectors.
int64_t EvenPart(int64_t size, int64_t most) {
  constexpr int64_t kVector = 16;
  const int64_t parts = (size + most - 1) / most, even = (size + parts - 1) / parts;
  return (even + kVector - 1) / kVector * kVector;
}

// How a product's result is cut: the size of a piece, and the number of pieces down and across.
struct Grid {
  int64_t height, width, down, across;
};
Grid GridOf(int64_t rows, int64_t columns, bool a_is_transposed) {
  const int64_t height = a_is_transposed ? EvenPart(rows, kRowBlock) : kRowBlock,
                width = columns <= kColumnBlock ? columns : EvenPart(columns, kColumnBlock);
  return {height, width, (rows + height - 1) / height, (columns + width - 1) / width};
}

// Some rows of operand a in a layout that oneDNN accepts: a contiguous matrix, or its transpose.
// Rows are padded with zeros up to `padded`.
at::Tensor RowsOfA(const at::Tensor& a, int64_t begin, int64_t count, int64_t padded) {
  const at::Tensor rows = a.narrow(0, begin, count);
  if (IsTransposed(a)) return rows.t().contiguous().t();
  if (count == padded) return rows;
  at::Tensor block = at::zeros({padded, a.size(1)}, a.options());
  block.narrow(0, 0, count).copy_(rows);
  return block;
}

at::Tensor ColumnsOfB(const at::Tensor& b, int64_t begin, int64_t count) {
  const at::Tensor columns = b.narrow(1, begin, count);
  return IsTransposed(b) ? columns : columns.contiguous();
}

// Computes a product with a large K in sections of K, whose results are added up in order.
void DeepProduct(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, double beta,
                 double alpha) {
  const int64_t rows = a.size(0), depth = a.size(1), part = EvenPart(depth, kDepthBlock),
                parts = (depth + part - 1) / part, down = (rows + kRowBlock - 1) / kRowBlock;
  const at::Tensor made = at::empty({parts, down * kRowBlock, b.size(1)}, out.options());
  const auto piece = [&](int64_t task) {
    const base::SmallWorkScope one_thread(/*rows=*/0, /*elements=*/0);
    const int64_t top = task % down * kRowBlock, begin = task / down * part,
                  count = std::min(part, depth - begin);
    const at::Tensor block = RowsOfA(a.narrow(1, begin, count), top,
                                     std::min(kRowBlock, rows - top), kRowBlock)
                                 .contiguous(),
                     to = made[task / down].narrow(0, top, kRowBlock);
    at::native::mkldnn_matmul(block, b.narrow(0, begin, count), to, 0.0F, 1.0F);
  };
  base::RunParallelTasks(std::vector<double>(static_cast<size_t>(down * parts), 1.0), piece);
  at::Tensor sum = made[0];
  for (int64_t i = 1; i < parts; ++i) sum.add_(made[i]);
  AddScaled(out, sum.narrow(0, 0, rows), beta, alpha);
}

// Tests whether oneDNN works here, because LibTorch does not export its own check of the processor.
bool TryOneDnn() {
  if (!at::Context::hasMKLDNN()) return false;
  const at::NoGradGuard no_grad;
  const at::Tensor a = at::zeros({16, 16}), out = at::empty({16, 16});
  try {
    at::native::mkldnn_matmul(a, a, out, 0.0F, 1.0F);
  } catch (const c10::Error&) {
    return false;
  }
  return true;
}

}  // namespace

bool HasOneDnn() {
  static const bool has = TryOneDnn();
  return has;
}

std::optional<ProductForm> OneDnnForm(const at::Tensor& a, const at::Tensor& b) {
  const auto fits = [](const at::Tensor& matrix) {
    return matrix.is_cpu() && matrix.scalar_type() == at::kFloat && matrix.dim() == 2 &&
           matrix.numel() > 0 && HasLayout(matrix);
  };
  if (!fits(a) || !fits(b) || a.size(1) != b.size(0) || !HasOneDnn()) return {};
  const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  if (IsTransposed(a)) {
    if (k < kLeastRows) return {};
    return std::min(m, n) < kWide ? ProductForm::kNarrowWeightGradient
                                  : ProductForm::kWeightGradient;
  }
  if (m < kLeastRows) return {};
  const bool narrow = std::min(k, n) < kWide;
  if (IsTransposed(b)) return narrow ? ProductForm::kNarrowForward : ProductForm::kForward;
  return narrow ? ProductForm::kNarrowInputGradient : ProductForm::kInputGradient;
}

int64_t OneDnnPieces(int64_t rows, int64_t columns, bool a_is_transposed) {
  const Grid grid = GridOf(rows, columns, a_is_transposed);
  return grid.down * grid.across;
}

void OneDnnProduct(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, double beta,
                   double alpha) {
  TORCH_CHECK(out.dim() == 2 && out.size(0) == a.size(0) && out.size(1) == b.size(1) &&
                  out.scalar_type() == at::kFloat && out.is_cpu(),
              "product: out ", out.sizes(), " of ", out.scalar_type(), ", expected [", a.size(0),
              ", ", b.size(1), "] of Float");
  const at::NoGradGuard no_grad;
  const bool whole_rows = !IsTransposed(a);
  if (whole_rows && !IsTransposed(b) && a.size(1) > kDepthBlock)
    return DeepProduct(out, a, b, beta, alpha);
  const int64_t rows = a.size(0), columns = b.size(1);
  const auto [height, width, down, across] = GridOf(rows, columns, !whole_rows);
  const bool plain = beta == 0.0 && alpha == 1.0 && columns == width && out.is_contiguous();
  const auto piece = [&, height = height, width = width, down = down](int64_t task) {
    const base::SmallWorkScope one_thread(/*rows=*/0, /*elements=*/0);
    const int64_t top = task % down * height, left = task / down * width,
                  m = std::min(height, rows - top), n = std::min(width, columns - left),
                  made = whole_rows ? height : m;
    const at::Tensor block = RowsOfA(a, top, m, made), part = ColumnsOfB(b, left, n);
    at::Tensor to = out.narrow(0, top, m).narrow(1, left, n);
    if (plain && made == m) return at::native::mkldnn_matmul(block, part, to, 0.0F, 1.0F);
    const at::Tensor all = at::empty({made, n}, out.options());
    at::native::mkldnn_matmul(block, part, all, 0.0F, 1.0F);
    AddScaled(to, all.narrow(0, 0, m), beta, alpha);
  };
  base::RunParallelTasks(std::vector<double>(static_cast<size_t>(down * across), 1.0), piece);
}

}  // namespace moonring::kernels
