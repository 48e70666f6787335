#include "kernels/products/few_rows.h"

#include <algorithm>
#include <vector>

#include <ATen/Parallel.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>

#include "kernels/products/dot_tiles.h"

namespace moonring::kernels {
namespace {

// Columns of the result per piece: their rows of W are read from memory once and then stay in the
// first-level cache for all rows of x.
constexpr int64_t kPiece = 16;
// The number of multiplications from which another thread pays off.
constexpr int64_t kGrain = int64_t{1} << 18;

template <typename Number, typename Word>
void Run(const at::Tensor& out, const at::Tensor& x, const Word* w, int64_t w_stride, double beta,
         double alpha) {
  const int64_t rows = x.size(0), depth = x.size(1), columns = out.size(1),
                pieces = (columns + kPiece - 1) / kPiece;
  const float* const from = x.const_data_ptr<float>();
  Number* const to = out.mutable_data_ptr<Number>();
  const int64_t row_stride = out.stride(0), column_stride = out.stride(1);
  const auto a = static_cast<float>(alpha), b = static_cast<float>(beta);
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, kPiece * rows * depth));
  at::parallel_for(0, pieces, grain, [&](int64_t begin, int64_t end) {
    std::vector<float> made(rows * kPiece);
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t first = piece * kPiece, count = std::min(kPiece, columns - first);
      DotTiles(from, rows, w + first * w_stride, count, depth, made.data(), kPiece);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < count; ++c) {
          Number& sum = to[r * row_stride + (first + c) * column_stride];
          const float term = a * made[r * kPiece + c];
          sum = static_cast<Number>(b == 0.0f ? term : b * static_cast<float>(sum) + term);
        }
      }
    }
  });
}

}  // namespace

bool IsOfFewRows(const at::Tensor& a, const at::Tensor& b) {
  return a.is_cpu() && b.is_cpu() && a.dim() == 2 && b.dim() == 2 && a.size(0) > 0 &&
         a.size(1) == b.size(0) && a.size(1) > 0 && b.size(1) > 0 &&
         a.scalar_type() == b.scalar_type() &&
         (a.scalar_type() == at::kFloat || a.scalar_type() == at::kBFloat16) && a.stride(1) == 1 &&
         b.stride(0) == 1 && b.stride(1) == b.size(0);
}

void FewRowsProduct(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, double beta,
                    double alpha) {
  TORCH_CHECK(IsOfFewRows(a, b) && out.sizes() == at::IntArrayRef({a.size(0), b.size(1)}) &&
                  out.scalar_type() == a.scalar_type(),
              "products of few rows: ", a.sizes(), " times ", b.sizes(), " into ", out.sizes());
  for (int64_t begin = 0; begin < a.size(0); begin += kFewRows) {
    const int64_t count = std::min(kFewRows, a.size(0) - begin);
    const at::Tensor x = a.narrow(0, begin, count).to(at::kFloat).contiguous(),
                     to = out.narrow(0, begin, count);
    if (a.scalar_type() == at::kFloat) {
      Run<float>(to, x, b.const_data_ptr<float>(), b.stride(1), beta, alpha);
    } else {
      Run<c10::BFloat16>(to, x, static_cast<const uint16_t*>(b.const_data_ptr()), b.stride(1), beta,
                         alpha);
    }
  }
}

}  // namespace moonring::kernels
