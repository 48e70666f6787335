#include "comm/products/product_timing.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "comm/products/onednn_products.h"
#include "comm/products/product_scope.h"
#include "comm/products/products.h"

namespace moonring::comm {
namespace {

constexpr int kTimes = 4;           // of which the first makes the library's plan
constexpr double kRounding = 1e-5;  // of the product's norm

// Numbers of both signs that repeat after no power of two. A generator would be the run's.
at::Tensor Numbers(int64_t rows, int64_t columns) {
  return at::arange(rows * columns)
      .remainder_(251)
      .sub_(125)
      .to(at::kFloat)
      .div_(125)
      .view({rows, columns});
}

double Seconds(const ProductChoice& by, const at::Tensor& out, const at::Tensor& a,
               const at::Tensor& b) {
  using Clock = std::chrono::steady_clock;
  const ProductScope scope(by);
  const Clock::time_point began = Clock::now();
  ProductInto(out, a, b);
  return std::chrono::duration<double>(Clock::now() - began).count();
}

std::optional<ProductTiming> Time(const at::Tensor& a, const at::Tensor& b) {
  const std::optional<ProductForm> form = OneDnnForm(a, b);
  if (!form.has_value()) return std::nullopt;
  ProductChoice mkl, onednn;
  onednn.onednn.fill(true);
  const at::Tensor one = at::empty({a.size(0), b.size(1)}, a.options()),
                   other = at::empty_like(one);
  double of_mkl = std::numeric_limits<double>::infinity(), of_onednn = of_mkl;
  for (int i = 0; i < kTimes; ++i) {
    const double first = Seconds(mkl, one, a, b), second = Seconds(onednn, other, a, b);
    if (i == 0) continue;
    of_mkl = std::min(of_mkl, first);
    of_onednn = std::min(of_onednn, second);
  }
  ProductTiming timing{*form, of_mkl, std::nullopt};
  const double off = (one - other).norm().item<double>(), norm = one.norm().item<double>();
  if (off <= kRounding * norm) timing.onednn_seconds = of_onednn;
  return timing;
}

}  // namespace

std::vector<ProductTiming> TimeProducts(const ProductShapes& shapes) {
  const at::NoGradGuard no_grad;
  const int64_t rows =
      std::clamp<int64_t>(shapes.rows, kLeastRows, kTimedRows * std::max(1, at::get_num_threads()));
  const auto side = [](int64_t size) { return std::clamp<int64_t>(size, kWide, kTimedSide); };
  const int64_t inputs = side(shapes.inputs),
                narrow = std::clamp<int64_t>(shapes.narrow, 1, kWide - 1);
  std::vector<ProductTiming> timings;
  for (const int64_t outputs : {side(shapes.outputs), narrow}) {
    const at::Tensor x = Numbers(rows, inputs), w = Numbers(outputs, inputs),
                     dy = Numbers(rows, outputs);
    for (const auto& timing : {Time(x, w.t()), Time(dy, w), Time(dy.t(), x)}) {
      if (timing.has_value()) timings.push_back(*timing);
    }
  }
  return timings;
}

}  // namespace moonring::comm
