// Attention over paged keys (stored in blocks) compared with attention from its definition, each
// row separately.

#include "attention/paged/paged_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "attention/kernels/softmax_merge.h"
#include "attention/paged/paged_keys.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/paged_problem.h"
#include "tests/testing/all_close.h"

namespace moonring::attention {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;
using ::testing::HasSubstr;

// Error bounds. fp64: the order of sums, and a few ulp of exp and tanh. fp32: as for the tiles of a
// forward. 16 bits: only queries and keys have 16 bits; everything is computed in fp32.
double BoundOf(at::ScalarType type) { return type == at::kDouble ? 2e-14 : 2e-6; }

TEST(PagedAttentionTest, IsAttentionOfEachRow) {
  const at::NoGradGuard no_grad;
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const PagedShape& shape : {PagedShape{}, PagedShape{4, 4, 12, 6}, PagedShape{8, 1, 64, 64},
                                    PagedShape{3, 1, 40, 33}, PagedShape{70, 1, 8, 16}}) {
      PagedProblem problem(type, shape);
      problem.AddAll();
      for (const int64_t window : {0, 1, 64, 100}) {
        for (const double softcap : {0.0, 1.5}) {
          if (softcap > 0 && window != 0 && window != 100) continue;
          SCOPED_TRACE(::testing::Message()
                       << type << ", " << shape.heads << " heads of " << shape.dim << " and "
                       << shape.value_dim << ", window " << window << ", softcap " << softcap);
          const PagedRule rule{{0.3, softcap}, window};
          const PartialAttention wanted = problem.Wanted(rule);
          const auto runs = problem.Runs();
          const PartialAttention made = PagedAttention(problem.q, problem.paged, runs, rule);
          EXPECT_TRUE(RelativeError(made.out_MHD, wanted.out_MHD, BoundOf(type)));
          EXPECT_TRUE(RelativeError(made.lse_MH, wanted.lse_MH, BoundOf(type)));
          const PartialAttention gathered =
              internal::GatheredAttention(problem.q, problem.paged, runs, rule);
          // bf16 tiles round the factors of their products.
          const double bound = type == at::kBFloat16 ? 1e-2 : BoundOf(type);
          EXPECT_TRUE(RelativeError(gathered.out_MHD, wanted.out_MHD, bound));
          EXPECT_TRUE(RelativeError(gathered.lse_MH, wanted.lse_MH, bound));
        }
      }
    }
  }
}

TEST(PagedAttentionTest, ARowDoesNotDependOnWhatIsBesideIt) {
  const at::NoGradGuard no_grad;
  PagedProblem problem(at::kFloat, {});
  problem.AddAll();
  const PagedRule rule{{0.3, 0.0}, 0};
  const auto runs = problem.Runs();
  const int before = at::get_num_threads();
  const PartialAttention all = PagedAttention(problem.q, problem.paged, runs, rule);
  for (const int threads : {1, 3}) {
    at::set_num_threads(threads);
    const PartialAttention again = PagedAttention(problem.q, problem.paged, runs, rule);
    EXPECT_TRUE(BitEqual(again.out_MHD, all.out_MHD)) << threads;
    EXPECT_TRUE(BitEqual(again.lse_MH, all.lse_MH)) << threads;
  }
  at::set_num_threads(before);
  int64_t row = 0;
  for (const PagedRun& run : runs) {
    const PartialAttention alone =
        PagedAttention(problem.q.narrow(0, row, run.rows), problem.paged, {run}, rule);
    EXPECT_TRUE(BitEqual(alone.out_MHD, all.out_MHD.narrow(0, row, run.rows)));
    EXPECT_TRUE(BitEqual(alone.lse_MH, all.lse_MH.narrow(0, row, run.rows)));
    row += run.rows;
  }
}

// Each of two ranks has a part of the keys and computes a partial result. The merged results equal
// attention over all keys.
TEST(PagedAttentionTest, PartsOfTheKeysMerge) {
  const at::NoGradGuard no_grad;
  PagedProblem problem(at::kDouble, {});
  problem.AddAll();
  for (const int64_t window : {0, 70}) {
    const PagedRule rule{{0.3, 0.0}, window};
    const auto runs = problem.Runs();
    const PartialAttention wanted = PagedAttention(problem.q, problem.paged, runs, rule);
    for (const bool gathers : {false, true}) {
      SoftmaxState state = SoftmaxState::Empty(problem.q.size(0), 6, 24, at::kDouble);
      for (const int64_t part : {0, 1}) {
        std::vector<std::vector<KeyBlock>> some;
        std::vector<PagedRun> of_part = runs;
        for (const PagedRun& run : runs) {
          some.emplace_back();
          for (size_t b = 0; b < run.blocks.size(); ++b) {
            if (static_cast<int64_t>(b) % 2 == part) some.back().push_back(run.blocks[b]);
          }
        }
        for (size_t i = 0; i < runs.size(); ++i) of_part[i].blocks = some[i];
        Merge(gathers ? internal::GatheredAttention(problem.q, problem.paged, of_part, rule)
                      : PagedAttention(problem.q, problem.paged, of_part, rule),
              state);
      }
      const PartialAttention whole = Finish(std::move(state));
      EXPECT_TRUE(RelativeError(whole.out_MHD, wanted.out_MHD, 2e-14));
      EXPECT_TRUE(RelativeError(whole.lse_MH, wanted.lse_MH, 2e-14));
    }
  }
}

TEST(PagedAttentionTest, GrowsAndCopies) {
  const at::NoGradGuard no_grad;
  at::manual_seed(3);
  const at::Tensor k = at::randn({5, 2, 8}), v = at::randn({5, 2, 4});
  PagedKeys keys;
  keys.Fit(k, v);
  keys.Reserve(1);
  const std::vector<KeyPlace> places = {{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}};
  keys.Write(places, k, v);
  keys.Reserve(9);
  ASSERT_GE(keys.blocks(), 9);
  keys.Copy(0, 8);
  for (const int64_t block : {0, 8}) {
    EXPECT_TRUE(
        BitEqual(keys.keys_NKDB()[block].narrow(2, 0, 5), k.permute({1, 2, 0}).contiguous()));
    EXPECT_TRUE(
        BitEqual(keys.values_NKBD()[block].narrow(1, 0, 5), v.transpose(0, 1).contiguous()));
  }
}

TEST(PagedAttentionTest, NaNComesThrough) {
  const at::NoGradGuard no_grad;
  PagedProblem problem(at::kFloat, {});
  problem.AddAll();
  problem.q[0].fill_(std::nanf(""));
  const PartialAttention made =
      PagedAttention(problem.q, problem.paged, problem.Runs(), {{0.3, 0.0}, 0});
  EXPECT_TRUE(made.out_MHD[0].isnan().all().item<bool>());
  EXPECT_FALSE(made.out_MHD.narrow(0, 1, 5).isnan().any().item<bool>());
}

TEST(PagedAttentionTest, BadInput) {
  const at::NoGradGuard no_grad;
  PagedProblem problem(at::kFloat, {});
  problem.AddAll();
  const auto message = [&](const at::Tensor& q, const PagedRule& rule) -> std::string {
    try {
      PagedAttention(q, problem.paged, problem.Runs(), rule);
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "";
  };
  const PagedRule rule{{0.3, 0.0}, 0};
  EXPECT_THAT(message(problem.q.narrow(0, 1, 5), rule), HasSubstr("q has 5"));
  EXPECT_THAT(message(problem.q.to(at::kDouble), rule), HasSubstr("keys Float"));
  EXPECT_THAT(message(problem.q.narrow(2, 0, 8), rule), HasSubstr("paged attention: q"));
  EXPECT_THAT(message(problem.q, {{0.3, -1.0}, 0}), HasSubstr("a softcap of -1"));
  EXPECT_THAT(message(problem.q, {{0.3, 0.0}, -2}), HasSubstr("a window of -2"));
}

}  // namespace
}  // namespace moonring::attention
