#include "kernels/products/product_timing.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <optional>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "base/threads/small_work.h"
#include "kernels/products/onednn_products.h"
#include "kernels/products/product_scope.h"
#include "kernels/products/products.h"

namespace moonring::kernels {
namespace {

constexpr int kTimes = 3;           // the first run initializes the library
constexpr double kRounding = 1e-5;  // relative to the product's norm

// Numbers to multiply: of both signs, with a period that is not a power of two. Random numbers
// would change the state of the run's generator.
at::Tensor Numbers(int64_t rows, int64_t columns) {
  return at::arange(rows * columns)
      .remainder_(251)
      .sub_(125)
      .to(at::kFloat)
      .div_(125)
      .view({rows, columns});
}

double ProcessorSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double Seconds(const ProductChoice& by, const at::Tensor& out, const at::Tensor& a,
               const at::Tensor& b) {
  const ProductScope scope(by);
  const double began = ProcessorSeconds();
  ProductInto(out, a, b);
  return ProcessorSeconds() - began;
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
  const auto threads = static_cast<double>(std::max(1, at::get_num_threads()));
  const base::SmallWorkScope one_thread(/*rows=*/0, /*elements=*/0);
  const int64_t rows = std::clamp<int64_t>(shapes.rows, kLeastRows, kTimedRows);
  const auto side = [](int64_t size) { return std::clamp<int64_t>(size, kWide, kTimedSide); };
  const int64_t inputs = side(shapes.inputs),
                narrow = std::clamp<int64_t>(shapes.narrow, 1, kWide - 1);
  std::vector<ProductTiming> timings;
  // Converts to the time with all threads, for a result of the run's size.
  const auto add = [&](std::optional<ProductTiming> timing, int64_t pieces) {
    if (!timing.has_value()) return;
    const auto count = static_cast<double>(std::max<int64_t>(1, pieces));
    timing->mkl_seconds /= threads;
    if (timing->onednn_seconds.has_value())
      *timing->onednn_seconds *= std::ceil(count / threads) / count;
    timings.push_back(*timing);
  };
  for (const bool is_narrow : {false, true}) {
    const int64_t all = is_narrow ? narrow : shapes.outputs,
                  outputs = is_narrow ? narrow : side(all);
    const at::Tensor x = Numbers(rows, inputs), w = Numbers(outputs, inputs),
                     dy = Numbers(rows, outputs);
    add(Time(x, w.t()), OneDnnPieces(shapes.rows, all, /*a_is_transposed=*/false));
    add(Time(dy, w), OneDnnPieces(shapes.rows, shapes.inputs, /*a_is_transposed=*/false));
    add(Time(dy.t(), x), OneDnnPieces(all, shapes.inputs, /*a_is_transposed=*/true));
  }
  return timings;
}

}  // namespace moonring::kernels
