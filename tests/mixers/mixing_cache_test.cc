// A document computed in several pieces equals the same document in one piece: fp64, 1e-12, since
// sums have another order.
#include "mixers/cache/mixing_cache.h"

#include <vector>

#include <ATen/ATen.h>

#include "gtest/gtest.h"
#include "mixers/over_ranks/local_mixing.h"
#include "tests/mixers/mixing_problem.h"
#include "tests/testing/all_close.h"

namespace moonring::mixers {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::FeedRows;
using ::moonring::testing::MakeMixingTensors;
using ::moonring::testing::MixingProblem;
using ::moonring::testing::MixingTensors;
using ::moonring::testing::RelativeError;
using ::moonring::testing::RowsOf;

constexpr int64_t kCacheTokens = 200;

// Returns the output of one layer for tokens [begin, end).
at::Tensor FeedRange(PlannedMixing& mixing, const MixingProblem& problem, const MixingTensors& all,
                     int64_t begin, int64_t end, int64_t layer = 0) {
  return FeedRows(mixing, problem, RowsOf(all, at::arange(begin, end, at::kLong)), layer);
}

std::vector<MixingProblem> CacheProblems() {
  return {{{kCacheTokens}},
          {{kCacheTokens}, 2, 4, 8, 6, 4, true},
          {{kCacheTokens}, 2, 2, 8, 6, 0},
          {{kCacheTokens}, 2, 4, 8, 6, 4, false, true, true},
          {{kCacheTokens}, 2, 2, 8, 6, 3, false, false}};
}

TEST(MixingCacheTest, AnySplitGivesTheWhole) {
  for (const MixingProblem& problem : CacheProblems()) {
    const MixingTensors all = MakeMixingTensors(problem);
    LocalMixing local({kCacheTokens});
    const at::Tensor whole = FeedRange(local, problem, all, 0, kCacheTokens);
    for (const std::vector<int64_t>& borders : std::vector<std::vector<int64_t>>{
             {0, 200}, {0, 1, 2, 3, 4, 5, 200}, {0, 0, 64, 65, 130, 132, 199, 200}, {0, 77, 200}}) {
      MixingCache cache;
      std::vector<at::Tensor> outs;
      for (size_t i = 0; i + 1 < borders.size(); ++i)
        outs.push_back(FeedRange(cache, problem, all, borders[i], borders[i + 1]));
      EXPECT_TRUE(RelativeError(at::cat(outs), whole, 1e-12));
      EXPECT_EQ(cache.tokens(), kCacheTokens);
    }
  }
}

TEST(MixingCacheTest, LayersAreApartAndWhatWasSavedComesBack) {
  for (const MixingProblem& problem : CacheProblems()) {
    const MixingTensors all = MakeMixingTensors(problem);
    MixingCache cache;
    for (const int64_t layer : {3, 7}) FeedRange(cache, problem, all, 0, 100, layer);
    const MixingCache::Kept kept = cache.Save();
    const int64_t bytes = cache.bytes();
    EXPECT_EQ(bytes, 8 * 2 *
                         (problem.channels() * std::max<int64_t>(0, problem.taps - 1) +
                          (problem.rule ? problem.heads * 8 * 6 : 0)));
    const at::Tensor first = FeedRange(cache, problem, all, 100, 150, 3);
    EXPECT_THROW(cache.tokens(), c10::Error);  // layer 7 has fewer tokens
    EXPECT_TRUE(BitEqual(FeedRange(cache, problem, all, 100, 150, 7), first));
    EXPECT_EQ(cache.tokens(), 150);
    EXPECT_EQ(cache.bytes(), bytes);
    cache.Restore(kept);
    EXPECT_EQ(cache.tokens(), 100);
    EXPECT_TRUE(BitEqual(FeedRange(cache, problem, all, 100, 150, 3), first));
    cache.Forget();
    EXPECT_EQ(cache.tokens(), 0);
    LocalMixing local({50});
    EXPECT_TRUE(RelativeError(FeedRange(cache, problem, all, 0, 50, 3),
                              FeedRange(local, problem, all, 0, 50), 1e-12));
  }
}

TEST(MixingCacheTest, RefusesAnotherLayersShapes) {
  const MixingProblem problem = CacheProblems()[0], other{{kCacheTokens}, 2, 4, 8, 8};
  MixingCache cache;
  FeedRange(cache, problem, MakeMixingTensors(problem), 0, 10);
  const MixingTensors wrong = MakeMixingTensors(other);
  EXPECT_THROW(FeedRange(cache, other, wrong, 10, 20), c10::Error);
}

}  // namespace
}  // namespace moonring::mixers
