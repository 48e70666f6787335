#include "trainer/reports/matmul_rate.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <ATen/ATen.h>

#include "kernels/products/products.h"

namespace moonring::trainer {
namespace {

using Clock = std::chrono::steady_clock;

// Matrix sizes: of the first product, and the smallest and largest that is measured.
struct Sides {
  int64_t first, least, most;
};

constexpr Sides kOnCpu{256, 256, 1024}, kOnGpu{256, 4096, 8192};

// Upper limit, in seconds, for the predicted time of the next larger product. A device that is slow
// in a dtype, such as a CPU without bf16, would take minutes for the largest one.
constexpr double kLongest = 0.25;

double SecondsSince(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

}  // namespace

double MeasureMatmulRate(at::ScalarType dtype, c10::Device device, double seconds, int64_t bytes) {
  const at::NoGradGuard no_grad;
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  const Sides sides = device.is_cuda() ? kOnGpu : kOnCpu;
  const auto fits = [&](int64_t n) {
    return 3 * n * n * static_cast<int64_t>(c10::elementSize(dtype)) <= bytes;
  };
  if (!fits(sides.least)) return 0.0;
  int64_t side = sides.first;
  at::Tensor a, b, out;
  const auto make = [&] {
    a = b = out = at::Tensor();
    a = at::full({side, side}, 0.5, options);
    b = at::full({side, side}, 0.25, options);
    out = at::empty({side, side}, options);
  };
  // Reading one element synchronizes with the device.
  const auto product = [&] {
    const auto start = Clock::now();
    kernels::ProductInto(out, a, b);
    out[0][0].item();
    return SecondsSince(start);
  };
  make();
  product();
  // The first product of a size may include setup costs.
  for (double took = product(); side < sides.most && fits(2 * side) && 8 * took <= kLongest;
       took = product()) {
    side *= 2;
    make();
    product();
  }
  if (side < sides.least) return 0.0;
  const auto began = Clock::now();
  double best = 0.0;
  do {
    best = std::max(best, 2.0 * side * side * side / product());
  } while (SecondsSince(began) < seconds);
  return best;
}

}  // namespace moonring::trainer
