#include "kernels/cross_entropy_rows.h"

#include <limits>

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

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInfinity = std::numeric_limits<double>::infinity();

// Returns rows of scores, each followed by `gap` NaNs. With `odd`, the first row is aligned to one
// element only.
at::Tensor Scores(int64_t rows, int64_t vocabulary, at::ScalarType dtype, bool odd,
                  int64_t gap = 0) {
  const int64_t width = vocabulary + gap;
  const at::Tensor all = at::full({rows * width + 1}, kNan, dtype);
  at::Tensor scores =
      all.narrow(0, odd ? 1 : 0, rows * width).view({rows, width}).narrow(1, 0, vocabulary);
  return scores.copy_(at::randn(scores.sizes(), at::kDouble) * 3.0);
}

// Returns results filled with NaN, so that elements that the kernel does not write are visible.
TargetRows Results(int64_t rows, at::ScalarType dtype) {
  const auto nan = [&] { return at::full({rows}, kNan, WideDtype(dtype)); };
  return {nan(), nan(), nan(), at::full({rows}, -7, at::kLong)};
}

struct WantedRows {
  TargetRows rows;
  at::Tensor gradient_RV;  // of -log p
};

WantedRows RowsInFp64(const at::Tensor& scores, double softcap, double smoothing,
                      const at::Tensor& targets) {
  const at::AutoGradMode enable(true);
  const at::Tensor s = scores.to(at::kDouble).detach().clone().requires_grad_(),
                   z = softcap == 0.0 ? s : (s / softcap).tanh() * softcap,
                   picked = z.gather(1, targets.unsqueeze(1)).squeeze(1), mean = z.mean(1),
                   lse = z.logsumexp(1),
                   log_p = (1.0 - smoothing) * picked + smoothing * mean - lse;
  const auto gradient = torch::autograd::grad({-log_p.sum()}, {s});
  return {{picked.detach(), lse.detach(), mean.detach(), z.argmax(1)}, gradient[0]};
}

struct RowsCase {
  at::ScalarType dtype;
  int64_t rows, vocabulary;
  double softcap = 0.0, smoothing = 0.0;
  bool odd = false;
  int64_t gap = 0;
};

void CheckRows(const RowsCase& c) {
  SCOPED_TRACE(::testing::Message()
               << c.dtype << " " << c.rows << " x " << c.vocabulary << ", softcap " << c.softcap
               << ", smoothing " << c.smoothing << ", odd " << c.odd << ", gap " << c.gap);
  at::Tensor scores = Scores(c.rows, c.vocabulary, c.dtype, c.odd, c.gap);
  const at::Tensor before = scores.clone(),
                   targets = at::randint(0, c.vocabulary, {c.rows}, at::kLong);
  targets[0] = c.vocabulary - 1;
  const WantedRows wanted = RowsInFp64(scores, c.softcap, c.smoothing, targets);
  const TargetRows made = Results(c.rows, c.dtype);
  CrossEntropyRows(scores, c.softcap, targets, made);
  EXPECT_TRUE(BitEqual(scores, before));
  const double bound = BoundOf(WideDtype(c.dtype));
  EXPECT_TRUE(RelativeError(made.picked_R, wanted.rows.picked_R, bound));
  EXPECT_TRUE(RelativeError(made.logsumexp_R, wanted.rows.logsumexp_R, bound));
  // The mean of numbers of both signs is small, so the bound is relative to the size of the
  // numbers, 3.
  EXPECT_LE((made.mean_R - wanted.rows.mean_R).abs().max().item<double>(), 3.0 * bound);
  // The kernel's tanh may give two equal maxima that differ in fp64: the ids then differ, but the
  // fp64 scores z at these ids are almost equal.
  const at::Tensor z = c.softcap == 0.0 ? scores.to(at::kDouble)
                                        : (scores.to(at::kDouble) / c.softcap).tanh() * c.softcap;
  const auto at_id = [&](const at::Tensor& id_R) { return z.gather(1, id_R.unsqueeze(1)); };
  EXPECT_TRUE(RelativeError(at_id(made.greedy_R), at_id(wanted.rows.greedy_R), bound));
  CrossEntropyRowsBackward(scores, c.softcap, c.smoothing, targets, made.logsumexp_R);
  // exp(z - lse) has its own rounding error and that of lse, which is about ten times as large as
  // 1. If the norm is dominated by one or two numbers, bf16 may differ by up to 2^-8.
  const double of_dtype = c.dtype == at::kBFloat16 ? 4e-3 : BoundOf(c.dtype);
  EXPECT_TRUE(RelativeError(scores, wanted.gradient_RV, of_dtype + 4.0 * bound));
}

class CrossEntropyRowsTest : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(29); }
};

TEST_F(CrossEntropyRowsTest, IsFp64s) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    for (const bool odd : {false, true}) {
      for (const double softcap : {0.0, 5.0}) {
        for (const double smoothing : {0.0, 0.1}) {
          CheckRows({dtype, 7, 29, softcap, smoothing, odd});
          CheckRows({dtype, 3, 640, softcap, smoothing, odd});
        }
      }
      CheckRows({dtype, 5, 1, 0.0, 0.1, odd});
      // The gap either fills the row's last vector word or is too short for that (in fp64 both fill
      // it).
      for (const int64_t gap : {3, 1}) CheckRows({dtype, 7, 29, 5.0, 0.1, odd, gap});
      CheckRows({dtype, 2, 20011, 2.0, 0.1, odd});
      CheckRows({dtype, 2, 20016, 0.0, 0.0, odd});
    }
  }
}

TEST_F(CrossEntropyRowsTest, LargeAndEmptyScores) {
  at::Tensor scores = at::full({4, 300}, -kInfinity);
  scores[0].fill_(-3e38);  // lse is -3e38: log 300 is rounded away
  scores[1][7] = 1e4;
  scores[1][299] = 1e4 - 1.0;  // all others -inf
  scores[2] = at::arange(300).to(at::kFloat) * -50.0;
  scores[3].fill_(3e38);
  const at::Tensor targets = at::zeros({4}, at::kLong);
  const WantedRows wanted = RowsInFp64(scores, 0.0, 0.0, targets);
  const TargetRows made = Results(4, at::kFloat);
  CrossEntropyRows(scores, 0.0, targets, made);
  EXPECT_TRUE(at::allclose(made.logsumexp_R.to(at::kDouble), wanted.rows.logsumexp_R, 1e-6, 0.0));
  EXPECT_TRUE(BitEqual(made.greedy_R, at::tensor({0, 7, 0, 0}, at::kLong)));
  CrossEntropyRowsBackward(scores, 0.0, 0.0, targets, made.logsumexp_R);
  // Numbers near 1e4 have a spacing of 1e-3 in fp32. The error of lse is half of that, which exp
  // turns into a relative error.
  EXPECT_TRUE(at::allclose(scores.slice(0, 1, 3).to(at::kDouble), wanted.gradient_RV.slice(0, 1, 3),
                           5e-4, 1e-30));
}

TEST_F(CrossEntropyRowsTest, NonFiniteValuesAppearInTheResult) {
  at::Tensor scores = at::randn({3, 100});
  scores[0][99] = kNan;
  scores[1][3] = kInfinity;
  const TargetRows made = Results(3, at::kFloat);
  CrossEntropyRows(scores, 0.0, at::zeros({3}, at::kLong), made);
  EXPECT_TRUE(made.logsumexp_R[0].isnan().item<bool>());
  EXPECT_TRUE(made.logsumexp_R[1].isnan().item<bool>());
  EXPECT_TRUE(made.logsumexp_R[2].isfinite().item<bool>());
}

TEST_F(CrossEntropyRowsTest, GreedyIsTheFirstOfEquals) {
  at::Tensor scores = at::zeros({2, 5000}, at::kBFloat16);
  scores[1].slice(0, 4321).fill_(2.0);
  const TargetRows made = Results(2, at::kBFloat16);
  CrossEntropyRows(scores, 0.0, at::zeros({2}, at::kLong), made);
  EXPECT_TRUE(BitEqual(made.greedy_R, at::tensor({0, 4321}, at::kLong)));
}

// The kernel does not write after the last 16-byte word of a row.
TEST_F(CrossEntropyRowsTest, WritesNothingBeyondARowsLastWord) {
  for (const int64_t vocabulary : {32, 29, 31}) {
    at::Tensor all = at::zeros({3, 48});
    at::Tensor scores = all.narrow(1, 0, vocabulary);
    CrossEntropyRowsBackward(scores, 0.0, 0.0, at::zeros({3}, at::kLong), at::zeros({3}));
    EXPECT_TRUE(BitEqual(all.narrow(1, 32, 16), at::zeros({3, 16})));
  }
}

// Results are bit-identical for any order of threads, address of a row, and neighboring rows.
TEST_F(CrossEntropyRowsTest, TheSameBits) {
  for (const int64_t vocabulary : {77, 9000}) {
    const at::Tensor scores = Scores(5, vocabulary, at::kFloat, false),
                     targets = at::randint(0, vocabulary, {5}, at::kLong);
    const auto both = [&](at::Tensor of, const at::Tensor& to) {
      const TargetRows made = Results(to.size(0), at::kFloat);
      CrossEntropyRows(of, 0.0, to, made);
      CrossEntropyRowsBackward(of, 0.0, 0.1, to, made.logsumexp_R);
      return at::cat({made.picked_R, made.logsumexp_R, made.mean_R, of.view({-1})});
    };
    const at::Tensor first = both(scores.clone(), targets);
    for (const uint64_t seed : kOrders) {
      const fibers::OrderScope order(seed);
      EXPECT_TRUE(BitEqual(both(scores.clone(), targets), first));
    }
    at::Tensor odd = Scores(5, vocabulary, at::kFloat, true);
    EXPECT_TRUE(BitEqual(both(odd.copy_(scores), targets), first));
    const TargetRows alone = Results(1, at::kFloat), together = Results(5, at::kFloat);
    CrossEntropyRows(scores.narrow(0, 3, 1), 0.0, targets.narrow(0, 3, 1), alone);
    CrossEntropyRows(scores, 0.0, targets, together);
    EXPECT_TRUE(BitEqual(alone.logsumexp_R, together.logsumexp_R.narrow(0, 3, 1)));
  }
}

TEST_F(CrossEntropyRowsTest, NoRowsAndWhatNobodyAsksFor) {
  at::Tensor none = at::empty({0, 10});
  const at::Tensor no_targets = at::empty({0}, at::kLong);
  CrossEntropyRows(none, 0.0, no_targets, Results(0, at::kFloat));
  CrossEntropyRowsBackward(none, 0.0, 0.0, no_targets, at::empty({0}));
  const TargetRows made = {at::full({2}, kNan), at::full({2}, kNan), {}, {}};
  CrossEntropyRows(at::zeros({2, 8}), 0.0, at::zeros({2}, at::kLong), made);
  EXPECT_TRUE(RelativeError(made.logsumexp_R, at::full({2}, std::log(8.0), at::kDouble), 1e-7));
}

TEST_F(CrossEntropyRowsTest, RefusesShapesAndDtypes) {
  const at::Tensor scores = at::zeros({2, 8}), targets = at::zeros({2}, at::kLong);
  const TargetRows made = Results(2, at::kFloat);
  EXPECT_THROW(CrossEntropyRows(scores.t(), 0.0, targets, made), c10::Error);
  EXPECT_THROW(CrossEntropyRows(scores, 0.0, targets.narrow(0, 0, 1), made), c10::Error);
  EXPECT_THROW(CrossEntropyRows(scores, 0.0, targets.to(at::kInt), made), c10::Error);
  EXPECT_THROW(CrossEntropyRows(scores.to(at::kLong), 0.0, targets, made), c10::Error);
  EXPECT_THROW(CrossEntropyRows(scores.to(at::kDouble), 0.0, targets, made), c10::Error);
  EXPECT_THROW(
      CrossEntropyRowsBackward(scores, 0.0, 0.0, targets, made.logsumexp_R.to(at::kDouble)),
      c10::Error);
}

}  // namespace
}  // namespace moonring::kernels
