#include "trainer/matmul_rate.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <ATen/ATen.h>

#include "comm/products/products.h"

namespace moonring::trainer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kCpuSide = 1024, kGpuSide = 8192;

double SecondsSince(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

}  // namespace

double MeasureMatmulRate(at::ScalarType dtype, c10::Device device, double seconds) {
  const at::NoGradGuard no_grad;
  const int64_t side = device.is_cuda() ? kGpuSide : kCpuSide;
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  const at::Tensor a = at::full({side, side}, 0.5, options),
                   b = at::full({side, side}, 0.25, options),
                   out = at::empty({side, side}, options);
  // A device's products are waited for by reading one of their numbers.
  const auto product = [&] {
    comm::ProductInto(out, a, b);
    out[0][0].item();
  };
  product();
  const auto began = Clock::now();
  double best = 0.0;
  do {
    const auto start = Clock::now();
    product();
    best = std::max(best, 2.0 * side * side * side / SecondsSince(start));
  } while (SecondsSince(began) < seconds);
  return best;
}

}  // namespace moonring::trainer
