#include "kernels/rms_norm.h"

#include <limits>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/fibers.h"
#include "tests/kernels/cases.h"
#include "tests/testing/all_close.h"

namespace moonring::kernels {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;

struct NormCase {
  at::ScalarType x, y;
};
constexpr NormCase kNormCases[] = {{at::kFloat, at::kFloat},    {at::kFloat, at::kBFloat16},
                                   {at::kFloat, at::kHalf},     {at::kBFloat16, at::kBFloat16},
                                   {at::kHalf, at::kHalf},      {at::kDouble, at::kDouble},
                                   {at::kBFloat16, at::kFloat}, {at::kHalf, at::kFloat}};
constexpr double kEps = 1e-5, kScale = 0.75;

// The expected results, computed by LibTorch's operators and autograd in fp64. The norm is computed
// from `made`, the sum that the kernel stored: a sum near the midpoint of two bf16 numbers may be
// rounded to either.
struct WantedNorm {
  at::Tensor y, sum, dx, dadded, dweight;
};
WantedNorm NormInFp64(const at::Tensor& x, const at::Tensor& added, double scale,
                      const at::Tensor& weight, const at::Tensor& dy, const at::Tensor& dsum,
                      const at::Tensor& made) {
  const auto leaf = [](const at::Tensor& t) {
    return t.to(at::kDouble).detach().clone().requires_grad_();
  };
  const at::Tensor x64 = leaf(x), added64 = added.defined() ? leaf(added) : leaf(at::zeros({1})),
                   w64 = leaf(weight);
  const at::AutoGradMode enable(true);
  at::Tensor s = x64 + scale * added64;
  const at::Tensor stored = made.defined() ? s + (made.to(at::kDouble) - s).detach() : s;
  const at::Tensor y = stored * (stored.square().mean(-1, true) + kEps).rsqrt() * w64;
  at::Tensor root = (y * dy.to(at::kDouble)).sum();
  if (dsum.defined()) root = root + (stored * dsum.to(at::kDouble)).sum();
  const auto d = torch::autograd::grad({root}, {x64, added64, w64});
  return {y.detach(), s.detach(), d[0], d[1], d[2]};
}

void CheckNorm(const NormCase& each, int64_t rows, int64_t width, Lies lies, bool adds,
               bool added_is_y) {
  SCOPED_TRACE(::testing::Message()
               << each.x << " to " << each.y << ", " << rows << " x " << width << ", lies "
               << static_cast<int>(lies) << ", adds " << adds << added_is_y);
  const at::Tensor x = RandomRows(rows, width, each.x, lies),
                   weight = at::randn({width}, WideDtype(each.x)),
                   dy = RandomRows(rows, width, each.y, lies),
                   dsum = adds ? RandomRows(rows, width, each.x, lies) : at::Tensor();
  const at::ScalarType added_dtype = added_is_y ? each.y : each.x;
  const at::Tensor added = adds ? RandomRows(rows, width, added_dtype, lies) : at::Tensor();
  const Poison poison;
  const RmsNormed made = RmsNorm(x, added, kScale, weight, kEps, each.y);
  const WantedNorm wanted = NormInFp64(x, added, kScale, weight, dy, dsum, made.sum_TD);
  const at::Tensor s = adds ? made.sum_TD : x;
  EXPECT_EQ(made.sum_TD.defined(), adds);
  EXPECT_TRUE(RelativeError(made.y_TD, wanted.y, BoundOf(each.y)));
  if (adds) {
    EXPECT_TRUE(RelativeError(made.sum_TD, wanted.sum, BoundOf(each.x)));
  }
  const RmsNormGradients d = RmsNormBackward(dy, s, weight, made.rstd_T1, dsum, kScale,
                                             {.added = adds, .added_dtype = added_dtype});
  EXPECT_TRUE(RelativeError(d.x_TD, wanted.dx, BoundOf(each.x)));
  EXPECT_TRUE(RelativeError(d.weight_D, wanted.dweight, BoundOf(WideDtype(each.x))));
  EXPECT_EQ(d.added_TD.defined(), adds);
  if (adds) {
    EXPECT_TRUE(RelativeError(d.added_TD, wanted.dadded, BoundOf(added_dtype)));
  }
}

TEST(RmsNormTest, IsFp64s) {
  for (const NormCase& each : kNormCases) {
    for (const Lies lies : kLies) {
      CheckNorm(each, 37, 576, lies, false, false);
      CheckNorm(each, 37, 577, lies, true, true);
      CheckNorm(each, 3, 1536, lies, true, false);
      CheckNorm(each, 5, 9, lies, false, false);
      CheckNorm(each, 2, 3001, lies, true, true);
    }
  }
}

// More rows than partial sums; and rows that fill or exceed the shared memory of a thread block.
TEST(RmsNormTest, IsFp64sAtManyRowsAndAtWideOnes) {
  CheckNorm(kNormCases[0], 4500, 7, Lies::kWhole, false, false);
  CheckNorm(kNormCases[1], 700, 1028, Lies::kWhole, false, false);
  CheckNorm(kNormCases[0], 2, 12288, Lies::kWhole, false, false);
  CheckNorm(kNormCases[0], 2, 12292, Lies::kWhole, true, true);
  CheckNorm(kNormCases[5], 3, 768, Lies::kWhole, false, false);
  CheckNorm(kNormCases[5], 2, 6144, Lies::kWhole, false, false);
  CheckNorm(kNormCases[5], 3, 1024, Lies::kWhole, true, true);
  CheckNorm(kNormCases[5], 2, 6148, Lies::kOdd, false, false);
}

TEST(RmsNormTest, OneOrderOfThreadsIsAsGoodAsAnother) {
  for (const int64_t width : {40, 1100}) {
    const at::Tensor x = RandomRows(19, width, at::kFloat, Lies::kWhole),
                     weight = at::randn({width}), dy = at::randn({19, width});
    at::Tensor y, dx, dweight;
    for (const uint64_t seed : kOrders) {
      const fibers::OrderScope order(seed);
      const Poison poison;
      const RmsNormed made = RmsNorm(x, dy, 1.0, weight, kEps, at::kFloat);
      const RmsNormGradients d =
          RmsNormBackward(dy, made.sum_TD, weight, made.rstd_T1, at::Tensor(), 1.0, {});
      if (!y.defined()) {
        y = made.y_TD;
        dx = d.x_TD;
        dweight = d.weight_D;
      }
      EXPECT_TRUE(BitEqual(made.y_TD, y));
      EXPECT_TRUE(BitEqual(d.x_TD, dx));
      EXPECT_TRUE(BitEqual(d.weight_D, dweight));
    }
  }
}

// A row gives the same bits at any address and with any other rows.
TEST(RmsNormTest, RowsDoNotMix) {
  const at::Tensor x = RandomRows(9, 132, at::kFloat, Lies::kWhole), weight = at::randn({132});
  const auto norm = [&](const at::Tensor& rows) {
    return RmsNorm(rows, at::Tensor(), 1.0, weight, kEps, at::kFloat).y_TD;
  };
  const at::Tensor odd = at::empty({9, 135}).narrow(1, 1, 132);
  odd.copy_(x);
  EXPECT_TRUE(BitEqual(norm(odd), norm(x)));
  EXPECT_TRUE(BitEqual(norm(x.narrow(0, 4, 3)), norm(x).narrow(0, 4, 3)));
}

TEST(RmsNormTest, NothingIsNormedOfNothing) {
  for (const int64_t width : {0, 16}) {
    const at::Tensor none = at::empty({width == 0 ? 3 : 0, width}), weight = at::ones({width});
    const RmsNormed made = RmsNorm(none, none, 1.0, weight, kEps, at::kBFloat16);
    EXPECT_EQ(made.y_TD.sizes(), none.sizes());
    const RmsNormGradients d =
        RmsNormBackward(made.y_TD, none, weight, made.rstd_T1, at::Tensor(), 1.0, {.added = true});
    EXPECT_EQ(d.x_TD.sizes(), none.sizes());
    EXPECT_TRUE(BitEqual(d.weight_D, at::zeros({width})));
  }
}

TEST(RmsNormTest, OnlyRequestedGradientsAreComputed) {
  const at::Tensor x = at::randn({4, 8}), weight = at::ones({8});
  const RmsNormed made = RmsNorm(x, at::Tensor(), 1.0, weight, kEps, at::kFloat);
  const auto backward = [&](const RmsNormWanted& wanted) {
    return RmsNormBackward(x, x, weight, made.rstd_T1, at::Tensor(), 1.0, wanted);
  };
  EXPECT_FALSE(backward({.x = false}).x_TD.defined());
  EXPECT_FALSE(backward({.weight = false}).weight_D.defined());
  const RmsNormGradients shared = backward({.added = true});
  EXPECT_TRUE(shared.x_TD.is_same(shared.added_TD));
}

TEST(RmsNormTest, RefusesShapesAndDtypes) {
  const at::Tensor x = at::randn({4, 8}), weight = at::ones({8});
  const auto norm = [&](const at::Tensor& rows, const at::Tensor& added, const at::Tensor& w,
                        at::ScalarType dtype) { RmsNorm(rows, added, 1.0, w, kEps, dtype); };
  EXPECT_THROW(norm(x, {}, at::ones({7}), at::kFloat), c10::Error);
  EXPECT_THROW(norm(x[0], {}, weight, at::kFloat), c10::Error);
  EXPECT_THROW(norm(x, at::ones({4, 7}), weight, at::kFloat), c10::Error);
  EXPECT_THROW(norm(x, at::ones({4, 8}, at::kDouble), weight, at::kFloat), c10::Error);
  EXPECT_THROW(norm(x.to(at::kLong), {}, weight, at::kFloat), c10::Error);
  EXPECT_ANY_THROW(norm(x, {}, weight, at::kDouble));
}

}  // namespace
}  // namespace moonring::kernels
