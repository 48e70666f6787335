#include "kernels/gated.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/fibers.h"
#include "tests/kernels/cases.h"
#include "tests/testing/all_close.h"

namespace moonring::kernels {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;

constexpr Gate kGates[] = {Gate::kSilu, Gate::kGelu, Gate::kGeluTanh};

at::Tensor Activate(const at::Tensor& x, Gate gate) {
  if (gate == Gate::kSilu) return at::silu(x);
  return at::gelu(x, gate == Gate::kGelu ? "none" : "tanh");
}
at::Tensor Slope(const at::Tensor& d, const at::Tensor& x, Gate gate) {
  if (gate == Gate::kSilu) return at::silu_backward(d, x);
  return at::gelu_backward(d, x, gate == Gate::kGelu ? "none" : "tanh");
}

void CheckGated(at::ScalarType dtype, int64_t rows, int64_t width, Lies lies, Gate gate) {
  SCOPED_TRACE(::testing::Message() << dtype << " " << rows << " x " << width << ", lies "
                                    << static_cast<int>(lies) << ", " << static_cast<int>(gate));
  const at::Tensor x = RandomRows(rows, width, dtype, lies) * 3,
                   up = RandomRows(rows, width, dtype, lies);
  at::Tensor dp = RandomRows(rows, width, dtype, Lies::kWhole).contiguous();
  const at::Tensor x64 = x.to(at::kDouble), up64 = up.to(at::kDouble),
                   dp64 = dp.to(at::kDouble).clone();
  const Poison poison;
  EXPECT_TRUE(RelativeError(Gated(x, up, gate), Activate(x64, gate) * up64, BoundOf(dtype)));
  EXPECT_TRUE(
      RelativeError(GatedBackward(dp, x, up, gate), Activate(x64, gate) * dp64, BoundOf(dtype)));
  EXPECT_TRUE(RelativeError(dp, Slope(dp64 * up64, x64, gate), BoundOf(dtype)));
}

TEST(GatedTest, IsFp64s) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (const Gate gate : kGates) {
      for (const Lies lies : kLies) {
        CheckGated(dtype, 37, 576, lies, gate);
        CheckGated(dtype, 13, 1537, lies, gate);
        CheckGated(dtype, 300, 3, lies, gate);
      }
    }
  }
}

// Gate and up are halves of one matrix, as when one product computes both.
TEST(GatedTest, ViewsOfOneMatrix) {
  const at::Tensor both = at::randn({5, 48});
  EXPECT_TRUE(BitEqual(
      Gated(both.narrow(1, 0, 24), both.narrow(1, 24, 24), Gate::kSilu),
      Gated(both.narrow(1, 0, 24).contiguous(), both.narrow(1, 24, 24).contiguous(), Gate::kSilu)));
}

TEST(GatedTest, NonFiniteValuesAppearInTheResult) {
  const at::Tensor x = at::tensor({-1e4, -90.0, 90.0, 1e4, NAN}).to(at::kFloat).view({1, 5});
  for (const Gate gate : kGates) {
    const at::Tensor made = Gated(x, at::ones_like(x), gate), wanted = Activate(x, gate);
    EXPECT_TRUE(at::allclose(made, wanted, 1e-6, 1e-30, /*equal_nan=*/true)) << made;
    at::Tensor d = at::ones_like(x);
    GatedBackward(d, x, at::ones_like(x), gate);
    EXPECT_TRUE(d.narrow(1, 0, 4).isfinite().all().item<bool>()) << d;
    EXPECT_TRUE(d[0][4].isnan().item<bool>());
  }
}

TEST(GatedTest, AnyOrderOfThreadsAndNothing) {
  const at::Tensor x = at::randn({7, 100});
  const at::Tensor wanted = Gated(x, x, Gate::kSilu);
  for (const uint64_t seed : kOrders) {
    const fibers::OrderScope order(seed);
    EXPECT_TRUE(BitEqual(Gated(x, x, Gate::kSilu), wanted));
  }
  for (const at::Tensor& none : {at::empty({0, 8}), at::empty({3, 0})}) {
    EXPECT_EQ(Gated(none, none, Gate::kGelu).sizes(), none.sizes());
    EXPECT_EQ(GatedBackward(none.clone(), none, none, Gate::kGelu).sizes(), none.sizes());
  }
}

TEST(GatedTest, RefusesShapesAndDtypes) {
  const at::Tensor x = at::randn({4, 8});
  EXPECT_THROW(Gated(x, at::randn({4, 7}), Gate::kSilu), c10::Error);
  EXPECT_THROW(Gated(x, x.to(at::kDouble), Gate::kSilu), c10::Error);
  EXPECT_THROW(Gated(x.to(at::kInt), x.to(at::kInt), Gate::kSilu), c10::Error);
  EXPECT_THROW(GatedBackward(at::randn({8, 4}).t(), x, x, Gate::kSilu), c10::Error);
}

}  // namespace
}  // namespace moonring::kernels
