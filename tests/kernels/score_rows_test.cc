#include "kernels/score_rows.h"

#include <cmath>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/fibers.h"
#include "tests/kernels/cases.h"
#include "tests/testing/all_close.h"

namespace moonring::kernels {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;

// The memory of the results p and ds: that of x and y; separate; or that of x and y, aligned to one
// element only.
enum class Memory { kOver, kApart, kOdd };

struct ScoreCase {
  std::vector<int64_t> sizes;  // B, H, M, N
  std::vector<int64_t> seen;   // four numbers per tile
  ScoreCurve curve;
  Memory memory = Memory::kOver;
};

// Returns which keys each query attends to: bool [B, 1, M, N].
at::Tensor SeenOf(const ScoreCase& c) {
  const at::Tensor seen = at::tensor(c.seen, at::kLong).view({-1, 4});
  const auto column = [&](int64_t i) { return seen.select(1, i).view({-1, 1, 1, 1}); };
  const at::Tensor i = at::arange(c.sizes[2]).view({1, 1, -1, 1}),
                   j = at::arange(c.sizes[3]).view({1, 1, 1, -1});
  return i.lt(column(0))
      .logical_and(j.lt(column(1)))
      .logical_and(j.ge(i + column(2)))
      .logical_and(j.le(i + column(3)));
}

// Returns random scores, with NaN where the kernel must not read.
at::Tensor RandomScores(const ScoreCase& c) {
  const at::Tensor random = at::randn(c.sizes, at::kDouble).mul_(3.0).to(at::kFloat);
  return random.masked_fill(SeenOf(c).logical_not(), NAN);
}

at::Tensor WideMemory(const ScoreCase& c) {
  if (c.memory != Memory::kOdd) return ScoreMemory(c.sizes, at::kFloat).fill_(NAN);
  std::vector<int64_t> wider = c.sizes;
  wider.back() += 3;
  const at::Tensor all = at::full({at::full(wider, 0.0).numel() + 1}, NAN);
  return all.narrow(0, 1, all.numel() - 1).view(wider).narrow(3, 0, c.sizes.back());
}

at::Tensor NarrowMemory(const ScoreCase& c, const at::Tensor& wide, at::ScalarType dtype) {
  return c.memory == Memory::kApart ? at::full(c.sizes, NAN, dtype) : NarrowOver(wide, dtype);
}

struct ScoreAnswer {
  at::Tensor shares, lse, p, ds;  // shares: p / sum, from the forward
};

ScoreAnswer ByKernel(const ScoreCase& c, const at::Tensor& x, const at::Tensor& y,
                     const at::Tensor& delta, at::ScalarType dtype) {
  const auto copy = [&](const at::Tensor& scores) { return WideMemory(c).copy_(scores); };
  const auto sums = [&] { return at::full({c.sizes[0], c.sizes[1], c.sizes[2]}, NAN); };
  const at::Tensor seen = at::tensor(c.seen, at::kLong).view({-1, 4}), sum = sums(), lse = sums();
  at::Tensor forward_x = copy(x);
  const at::Tensor e = NarrowMemory(c, forward_x, dtype);
  ScoreRows(forward_x, seen, c.curve, e, {sum, lse});
  const at::Tensor of_x = copy(x), of_y = copy(y), p = NarrowMemory(c, of_x, dtype),
                   ds = NarrowMemory(c, of_y, dtype);
  ScoreRowsBackward(of_x, of_y, lse, delta, seen, c.curve, {p, ds});
  return {e.to(at::kFloat) / sum.unsqueeze(3), lse, p.clone(), ds.clone()};
}

// Computes the expected results with LibTorch's autograd in fp64: the gradient of sum(shares * y)
// by x is scale * ds.
ScoreAnswer InFp64(const ScoreCase& c, const at::Tensor& x, const at::Tensor& y) {
  const at::AutoGradMode enable(true);
  const at::Tensor seen = SeenOf(c), hidden = seen.logical_not(),
                   leaf = x.to(at::kDouble).masked_fill(hidden, 0.0).requires_grad_(),
                   scaled = leaf * c.curve.scale,
                   z = c.curve.softcap == 0.0 ? scaled
                                              : (scaled / c.curve.softcap).tanh() * c.curve.softcap,
                   all = z.masked_fill(hidden, -INFINITY), none = seen.any(3, true).logical_not(),
                   lse = all.masked_fill(none, 0.0).logsumexp({3}, true),
                   shares = (all - lse).exp().masked_fill(none, 0.0);
  const at::Tensor weighted = (shares * y.to(at::kDouble).masked_fill(hidden, 0.0)).sum();
  const at::Tensor gradient = torch::autograd::grad({weighted}, {leaf})[0] / c.curve.scale;
  const at::Tensor made = shares.detach();
  return {made, lse.detach().masked_fill(none, -INFINITY).squeeze(3), made, gradient};
}

void CheckScores(const ScoreCase& c, at::ScalarType dtype) {
  SCOPED_TRACE(::testing::Message()
               << dtype << " " << at::IntArrayRef(c.sizes) << ", softcap " << c.curve.softcap
               << ", memory " << static_cast<int>(c.memory));
  const at::Tensor x = RandomScores(c), y = RandomScores(c);
  const ScoreAnswer wanted = InFp64(c, x, y);
  const at::Tensor delta =
      (wanted.p * y.to(at::kDouble)).nan_to_num(0.0).sum(3).to(at::kFloat).contiguous();
  const ScoreAnswer made = ByKernel(c, x, y, delta, dtype);
  const at::Tensor hidden = SeenOf(c).logical_not().expand(c.sizes);
  for (const at::Tensor& each : {made.shares, made.p, made.ds})
    EXPECT_TRUE(each.masked_select(hidden).eq(0).all().item<bool>());
  // lse of about 3 has a rounding error in fp32, which exp turns into a relative error of p. If the
  // largest number of one or two rows dominates the norm, bf16 differs by up to 2^-8. Each of
  // fp16's smallest numbers differs by 2^-25.
  const double bound = dtype == at::kBFloat16 ? 4e-3 : 6e-4;
  const at::Tensor sees = wanted.lse.isfinite();
  EXPECT_TRUE(made.lse.masked_select(sees.logical_not()).isneginf().all().item<bool>());
  EXPECT_TRUE(RelativeError(made.lse.masked_select(sees), wanted.lse.masked_select(sees), 1e-6));
  EXPECT_TRUE(RelativeError(made.shares, wanted.shares, bound));
  EXPECT_TRUE(RelativeError(made.p, wanted.p, bound));
  // With a single key the softmax is constant: ds is 0 except for rounding.
  EXPECT_TRUE(c.sizes[3] == 1 || RelativeError(made.ds, wanted.ds, bound));
}

class ScoreRowsTest : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(31); }
};

constexpr int64_t kFar = int64_t{1} << 40;

std::vector<ScoreCase> AllCases() {
  return {
      // All keys; causal; the edge of a window; a band without its last query and its last keys.
      {{1, 2, 7, 640}, {7, 640, -kFar, kFar}},
      {{1, 3, 37, 37}, {37, 37, -kFar, 0}},
      {{1, 3, 37, 37}, {37, 37, 0, kFar}},
      {{2, 3, 9, 29}, {9, 29, 10, 20, 8, 24, 3, 5}},
      // The first query attends to a key beyond the last one, and other queries attend to none.
      {{2, 1, 6, 24}, {6, 24, 20, 30, 2, 24, -30, -22}},
      {{1, 1, 3, 1}, {3, 1, -kFar, kFar}},
      {{3, 2, 2, 70}, {2, 70, -kFar, kFar, 1, 1, -kFar, kFar, 2, 64, -kFar, 40}},
      {{1, 1, 2, 4099}, {2, 4099, 7, 4090}},
      {{1, 1, 2, 8192}, {2, 8192, -kFar, kFar}},
      // More keys than the kernel keeps in shared memory.
      {{1, 1, 3, 8200}, {3, 8200, 4000, 8197}},
      {{1, 2, 1, 12301}, {1, 12301, -kFar, kFar}},
  };
}

TEST_F(ScoreRowsTest, IsFp64s) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    for (ScoreCase c : AllCases()) {
      for (const double softcap : {0.0, 2.0}) {
        for (const Memory memory : {Memory::kOver, Memory::kApart, Memory::kOdd}) {
          c.curve = {0.7, softcap};
          c.memory = memory;
          CheckScores(c, dtype);
        }
      }
    }
  }
}

// Results are bit-identical for any order of threads and any address of the rows. A missing barrier
// would change them, because p overwrites memory that other threads still read.
TEST_F(ScoreRowsTest, TheSameBits) {
  for (ScoreCase c : AllCases()) {
    c.curve = {0.7, 2.0};
    const at::Tensor x = RandomScores(c), y = RandomScores(c),
                     delta = at::randn({c.sizes[0], c.sizes[1], c.sizes[2]});
    const ScoreAnswer first = ByKernel(c, x, y, delta, at::kBFloat16);
    for (const uint64_t seed : kOrders) {
      const fibers::OrderScope order(seed);
      for (const Memory memory : {Memory::kOver, Memory::kApart, Memory::kOdd}) {
        c.memory = memory;
        const ScoreAnswer again = ByKernel(c, x, y, delta, at::kBFloat16);
        EXPECT_TRUE(BitEqual(again.shares, first.shares) && BitEqual(again.lse, first.lse) &&
                    BitEqual(again.p, first.p) && BitEqual(again.ds, first.ds))
            << at::IntArrayRef(c.sizes) << ", order " << seed;
      }
    }
  }
}

TEST_F(ScoreRowsTest, NonFiniteScores) {
  const ScoreCase c{{1, 1, 5, 40}, {5, 40, -kFar, kFar}, {1.0, 0.0}};
  at::Tensor x = RandomScores(c);
  x[0][0][0][39] = NAN;
  x[0][0][1][3] = INFINITY;
  x[0][0][2].fill_(-INFINITY);
  x[0][0][3].fill_(-INFINITY)[7].fill_(2.0);
  x[0][0][4].fill_(-3e38)[7].fill_(3e38);
  const ScoreAnswer made = ByKernel(c, x, at::ones_like(x), at::zeros({1, 1, 5}), at::kBFloat16);
  const at::Tensor lse = made.lse[0][0];
  EXPECT_TRUE(lse[0].isnan().item<bool>() && lse[1].isnan().item<bool>());
  EXPECT_TRUE(made.p[0][0][0].isnan().any().item<bool>());
  // A row whose scores are all -inf counts as having no keys.
  EXPECT_TRUE(lse[2].isneginf().item<bool>());
  for (const at::Tensor& each : {made.shares, made.p})
    EXPECT_TRUE(each[0][0][2].eq(0).all().item<bool>());
  EXPECT_TRUE(lse[3].eq(2.0).item<bool>() && lse[4].eq(3e38f).item<bool>());
  for (const int64_t row : {3, 4}) {
    const at::Tensor one = at::zeros({40}).index_fill_(0, at::tensor({7}, at::kLong), 1.0);
    EXPECT_TRUE(BitEqual(made.shares[0][0][row], one));
    EXPECT_TRUE(BitEqual(made.p[0][0][row].to(at::kFloat), one));
  }
}

TEST_F(ScoreRowsTest, NoRows) {
  const at::Tensor none = ScoreMemory({0, 2, 3, 8}, at::kFloat), sums = at::empty({0, 2, 3}),
                   seen = at::empty({0, 4}, at::kLong), p = at::empty({0, 2, 3, 8}, at::kHalf);
  ScoreRows(none, seen, {}, p, {sums, sums});
  ScoreRowsBackward(none, none.clone(), sums, sums, seen, {}, {p, p.clone()});
}

TEST_F(ScoreRowsTest, RefusesShapesAndDtypes) {
  const at::Tensor x = at::zeros({1, 2, 3, 8}), sum = at::zeros({1, 2, 3}),
                   seen = at::zeros({1, 4}, at::kLong), p = at::zeros({1, 2, 3, 8}, at::kHalf);
  const auto run = [&](const at::Tensor& x_of, const at::Tensor& seen_of, const at::Tensor& p_of,
                       const at::Tensor& sum_of) {
    ScoreRows(x_of, seen_of, {}, p_of, {sum_of, sum.clone()});
  };
  run(x, seen, p, sum);
  EXPECT_THROW(run(x.to(at::kDouble), seen, p, sum), c10::Error);
  EXPECT_THROW(run(x.transpose(1, 2), seen, p, sum), c10::Error);
  EXPECT_THROW(run(x, seen.to(at::kInt), p, sum), c10::Error);
  EXPECT_THROW(run(x, seen.narrow(1, 0, 3), p, sum), c10::Error);
  EXPECT_THROW(run(x, seen, p.to(at::kFloat), sum), c10::Error);
  EXPECT_THROW(run(x, seen, p.narrow(3, 0, 7), sum), c10::Error);
  EXPECT_THROW(run(x, seen, p, sum.narrow(2, 0, 2)), c10::Error);
  // An output that overlaps x but does not begin at x's rows is rejected.
  EXPECT_THROW(run(x, seen, x.view(at::kHalf).narrow(3, 8, 8), sum), c10::Error);
  EXPECT_THROW(ScoreRowsBackward(x, x.clone(), sum, sum, seen, {}, {p, p}), c10::Error);
}

}  // namespace
}  // namespace moonring::kernels
