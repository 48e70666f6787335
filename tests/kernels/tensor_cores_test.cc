#include "kernels/tensor_cores.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/fibers.h"
#include "tests/kernels/cases.h"
#include "tests/testing/all_close.h"

namespace moonring::kernels::on_cpu {
namespace {

using ::moonring::testing::RelativeError;

struct Matrices {
  const float *a, *b;  // [warps, 16, 8], [warps, 8, 8]
  float* d;            // [warps, 16, 8]
  bool round;
};

// Loads and stores each lane's elements according to the table in the header.
void OneProduct(const Matrices m) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32,
            g = lane / 4, t = lane % 4;
  const auto operand = [&](float x) { return m.round ? Tf32(x) : x; };
  const float *a = m.a + warp * 128, *b = m.b + warp * 64;
  float* const d = m.d + warp * 128;
  const float of_a[4] = {operand(a[g * 8 + t]), operand(a[(g + 8) * 8 + t]),
                         operand(a[g * 8 + t + 4]), operand(a[(g + 8) * 8 + t + 4])};
  const float of_b[2] = {operand(b[t * 8 + g]), operand(b[(t + 4) * 8 + g])};
  float sums[4] = {d[g * 8 + 2 * t], d[g * 8 + 2 * t + 1], d[(g + 8) * 8 + 2 * t],
                   d[(g + 8) * 8 + 2 * t + 1]};
  MultiplyTf32(sums, of_a, of_b);
  d[g * 8 + 2 * t] = sums[0];
  d[g * 8 + 2 * t + 1] = sums[1];
  d[(g + 8) * 8 + 2 * t] = sums[2];
  d[(g + 8) * 8 + 2 * t + 1] = sums[3];
}

at::Tensor Rounded(const at::Tensor& x) {
  const at::Tensor made = x.clone();
  float* const data = made.mutable_data_ptr<float>();
  for (int64_t i = 0; i < made.numel(); ++i) data[i] = Tf32(data[i]);
  return made;
}

// The product equals that of the rounded operands in fp64, up to fp32 sums of eight exact terms:
// 1e-7.
TEST(TensorCoresTest, IsTheProductOfRoundedOperands) {
  at::manual_seed(5);
  const at::Tensor a = at::randn({2, 16, 8}), b = at::randn({2, 8, 8}), d = at::randn({2, 16, 8});
  const at::Tensor wanted =
      d.to(at::kDouble) + at::matmul(Rounded(a).to(at::kDouble), Rounded(b).to(at::kDouble));
  for (const uint64_t seed : kOrders) {
    const fibers::OrderScope order(seed);
    const at::Tensor made = d.clone();
    Launch({.block_x = 64}, &OneProduct,
           Matrices{a.const_data_ptr<float>(), b.const_data_ptr<float>(),
                    made.mutable_data_ptr<float>(), true});
    EXPECT_TRUE(RelativeError(made, wanted, 2e-7));
  }
}

TEST(TensorCoresTest, RequiresRoundedOperands) {
  const at::Tensor x = at::full({16, 8}, 1.0 / 3, at::kFloat), d = at::zeros({16, 8});
  EXPECT_THROW(Launch({}, &OneProduct,
                      Matrices{x.const_data_ptr<float>(), x.const_data_ptr<float>(),
                               d.mutable_data_ptr<float>(), false}),
               std::runtime_error);
}

// Midpoints between two TF32 numbers (10 explicit bits) are rounded away from zero.
TEST(TensorCoresTest, RoundsToTheNearest) {
  const float last = std::ldexp(1.0f, -10), half = last / 2, less = std::nextafter(1 + half, 0.0f);
  EXPECT_EQ(Tf32(1 + half), 1 + last);
  EXPECT_EQ(Tf32(-1 - half), -1 - last);
  EXPECT_EQ(Tf32(less), 1.0f);
  EXPECT_EQ(Tf32(2 - half / 2), 2.0f);
  EXPECT_EQ(Tf32(0.0f), 0.0f);
  EXPECT_EQ(Tf32(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(Tf32(NAN)));
  uint32_t bits = 0x7FFFFFFF;  // CUDA's NaN
  float nan = 0;
  std::memcpy(&nan, &bits, sizeof(nan));
  EXPECT_TRUE(std::isnan(Tf32(nan)));
}

}  // namespace
}  // namespace moonring::kernels::on_cpu
