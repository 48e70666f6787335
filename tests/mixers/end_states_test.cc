// The states at the ends of documents, computed over ranks, equal a sampler's state after each
// document: fp64, 1e-12.
#include "mixers/over_ranks/end_states.h"

#include <map>
#include <memory>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "comm/layout.h"
#include "comm/process_groups.h"
#include "gtest/gtest.h"
#include "mixers/cache/mixing_cache.h"
#include "mixers/over_ranks/mixing_planner.h"
#include "tests/mixers/mixing_problem.h"
#include "tests/testing/all_close.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::mixers {
namespace {

using ::moonring::testing::CutTensors;
using ::moonring::testing::FeedRows;
using ::moonring::testing::MakeMixingTensors;
using ::moonring::testing::MixingProblem;
using ::moonring::testing::MixingTensors;
using ::moonring::testing::RelativeError;

constexpr int64_t kLayer = 4;

TEST(EndStatesTest, AreTheDocumentsOwn) {
  const at::NoGradGuard no_grad;
  const std::vector<int64_t> lengths = {700, 2, 130, 1, 64};
  for (const MixingProblem& problem :
       {MixingProblem{lengths}, MixingProblem{lengths, 2, 4, 8, 6, 4, true},
        MixingProblem{lengths, 2, 2, 8, 6, 0},
        MixingProblem{lengths, 2, 4, 8, 6, 4, false, true, true},
        MixingProblem{lengths, 2, 2, 8, 6, 3, false, false}}) {
    SCOPED_TRACE(::testing::Message() << "taps " << problem.taps << ", by channel "
                                      << problem.by_channel << ", rule " << problem.rule);
    const MixingTensors stream = MakeMixingTensors(problem);
    std::vector<MixingCache::Layer> wanted;
    int64_t row = 0;
    for (const int64_t length : lengths) {
      MixingTensors document = stream;
      for (at::Tensor* x : {&document.x, &document.g, &document.beta})
        if (x->defined()) *x = x->narrow(0, row, length);
      MixingCache cache;
      FeedRows(cache, problem, document, kLayer);
      wanted.push_back(cache.Save().at(4));
      row += length;
    }
    for (const int ranks : {2, 3}) {
      for (const MixingStrategy strategy :
           {MixingStrategy::kHeads, MixingStrategy::kSpans, MixingStrategy::kRelay}) {
        testing::RunRanks(ranks, [&](std::shared_ptr<comm::World> world) {
          const at::NoGradGuard no_grad_here;
          ASSERT_OK_AND_ASSIGN(const auto layout,
                               comm::Layout::Create(lengths, {ranks, comm::Ownership::kZigzag}));
          const auto mixing = PlanMixing(layout, world->communicator(), {strategy});
          int told = 0;
          EndStates with_ends(
              mixing, layout, world->communicator(), [&](int64_t layer, const DocumentEnds& ends) {
                ++told;
                EXPECT_EQ(layer, 4);
                for (size_t d = 0; d < lengths.size(); ++d) {
                  const auto document = static_cast<int64_t>(d);
                  if (wanted[d].last_RC.defined()) {
                    const int64_t count = wanted[d].last_RC.size(0), most = ends.last_DRC.size(1);
                    EXPECT_EQ(most, problem.taps - 1);
                    const at::Tensor last = ends.last_DRC[document];
                    EXPECT_TRUE(
                        RelativeError(last.narrow(0, most - count, count), wanted[d].last_RC, 0.0));
                    EXPECT_EQ(last.narrow(0, 0, most - count).count_nonzero().item<int64_t>(), 0);
                  }
                  ASSERT_EQ(ends.state_DHVK.defined(), wanted[d].state_1HVK.defined());
                  if (!ends.state_DHVK.defined()) continue;
                  EXPECT_TRUE(
                      RelativeError(ends.state_DHVK[document], wanted[d].state_1HVK[0], 1e-12))
                      << "document " << d;
                }
              });
          const MixingTensors mine = CutTensors(stream, *layout, world->rank());
          const at::Tensor out = FeedRows(with_ends, problem, mine, kLayer);
          EXPECT_EQ(told, 1);
          EXPECT_TRUE(RelativeError(out, FeedRows(*mixing, problem, mine, kLayer), 0.0));
        });
      }
    }
  }
}

}  // namespace
}  // namespace moonring::mixers
