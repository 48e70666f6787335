#include "kernels/philox.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/fibers.h"
#include "kernels/random/counter_random.h"
#include "tests/kernels/cases.h"
#include "tests/testing/all_close.h"

namespace moonring::kernels {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;

constexpr uint64_t kKey = 0xFEDCBA9876543210u;  // exceeds int64

at::Tensor Identities(int64_t count) {
  return at::arange(count, at::kLong) * ((int64_t{1} << 31) + 7) - 3;
}

TEST(PhiloxTest, NumbersAreThoseOfCounterRandom) {
  for (const int64_t width : {1, 4, 7, 133, 1024}) {
    for (const int64_t rows : {1, 37}) {
      const Poison poison;
      EXPECT_TRUE(BitEqual(UniformByKernel(kKey, Identities(rows), width),
                           kernels::CounterUniform(kKey, Identities(rows), width)))
          << width;
    }
  }
  EXPECT_EQ(UniformByKernel(1, Identities(0), 5).numel(), 0);
  EXPECT_EQ(UniformByKernel(1, Identities(5), 0).numel(), 0);
}

TEST(PhiloxTest, DropsWhatCounterRandomSays) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (const Lies lies : kLies) {
      for (const double rate : {0.1, 0.5, 0.0}) {
        for (const int64_t width : {577, 64, 3}) {
          const at::Tensor x = RandomRows(37, width, dtype, lies), identity = Identities(37);
          const at::Tensor kept = kernels::CounterUniform(kKey, identity, width).ge(rate);
          const at::Tensor wanted = x.to(at::kDouble) * kept.to(at::kDouble) / (1.0 - rate);
          const Poison poison;
          const at::Tensor made = Dropout(x, kKey, identity, rate);
          EXPECT_TRUE(BitEqual(made.ne(0), x.mul(kept).ne(0)));
          EXPECT_TRUE(RelativeError(made, wanted, BoundOf(dtype)));
          const at::Tensor place = RandomRows(37, width, dtype, lies);
          place.copy_(x);
          DropoutInPlace(place, kKey, identity, rate);
          EXPECT_TRUE(BitEqual(place.contiguous(), made));
        }
      }
    }
  }
}

TEST(PhiloxTest, AnyOrderOfThreadsAndNothing) {
  const at::Tensor x = at::randn({9, 300}), identity = Identities(9);
  const at::Tensor wanted = Dropout(x, kKey, identity, 0.3);
  for (const uint64_t seed : kOrders) {
    const fibers::OrderScope order(seed);
    EXPECT_TRUE(BitEqual(Dropout(x, kKey, identity, 0.3), wanted));
  }
  EXPECT_EQ(Dropout(at::empty({0, 4}), kKey, Identities(0), 0.3).numel(), 0);
}

TEST(PhiloxTest, RefusesShapesAndRates) {
  const at::Tensor x = at::randn({4, 8});
  EXPECT_THROW(Dropout(x, kKey, Identities(3), 0.5), c10::Error);
  EXPECT_THROW(Dropout(x, kKey, Identities(4), 1.0), c10::Error);
  EXPECT_THROW(Dropout(x, kKey, Identities(4).to(at::kInt), 0.5), c10::Error);
  EXPECT_THROW(UniformByKernel(kKey, Identities(4), -1), c10::Error);
}

}  // namespace
}  // namespace moonring::kernels
