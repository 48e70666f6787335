// Calls that are announced before they exchange data, on ranks that are threads.

#include "comm/matched_call.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "comm/mesh.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::comm {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RunRanks;
using testing::StatusIs;

TEST(MatchedCall, GivesTheNumberOfEachRank) {
  RunRanks(4, [](std::shared_ptr<World> world) {
    Communicator& group = *world->communicator();
    for (int64_t i = 0; i < 100; ++i) {
      const ScriptCall call = {.what = "sum", .site = std::to_string(group.rank())};
      const auto numbers = Match(group, call, 10 * i + group.rank());
      ASSERT_OK(numbers.status());
      ASSERT_THAT(*numbers, ElementsAre(10 * i, 10 * i + 1, 10 * i + 2, 10 * i + 3));
    }
    EXPECT_EQ(group.counters().steps, 300);
    EXPECT_EQ(group.counters().bytes_sent, 100 * 3 * 16);
  });
}

// No data is exchanged, every rank gets the same error, and the group stays usable.
TEST(MatchedCall, DifferentCallsAreNamedOnEachRank) {
  for (const int size : {2, 4}) {
    RunRanks(size, [&](std::shared_ptr<World> world) {
      Communicator& group = *world->communicator();
      const std::string others = size == 2 ? "rank 1 called max (b.lua:2)"
                                           : "ranks 1, 2, 3 called max (b.lua:2)";
      for (int i = 0; i < 20; ++i) {
        const ScriptCall call = group.rank() == 0 ? ScriptCall{"sum", "a.lua:1"}
                                                  : ScriptCall{"max", "b.lua:2"};
        EXPECT_THAT(Match(group, call, 1).status(),
                    StatusIs(absl::StatusCode::kAborted,
                             "rank 0 called sum (a.lua:1), " + others +
                                 ": all ranks of a group must make the same calls in the same "
                                 "order"));
        EXPECT_OK(Match(group, {.what = "sum"}).status());
        EXPECT_OK(group.Barrier());
      }
    });
  }
}

// Calls on different groups, or of another kind, end within seconds, far before the deadline.
TEST(MatchedCall, RanksThatWaitForOneAnotherAreNamed) {
  enum class Other { kGroup, kEngine };
  for (const Other other : {Other::kGroup, Other::kEngine}) {
    RunRanks(4, [&](std::shared_ptr<World> world) {
      const auto mesh = Mesh::Create(world, 2);
      ASSERT_OK(mesh.status());
      const absl::Time start = absl::Now();
      absl::Status status;
      if (world->rank() == 0) {
        status = Match((*mesh)->sp(), {"mesh:sum_sp", "a.lua:1"}).status();
      } else if (other == Other::kGroup) {
        status = Match((*mesh)->world(), {"mesh:sum", "a.lua:2"}).status();
      } else {
        status = (*mesh)->world().Barrier();
      }
      EXPECT_THAT(
          status,
          StatusIs(absl::StatusCode::kUnavailable,
                   AllOf(HasSubstr("rank 0 called mesh:sum_sp (a.lua:1) on group 'sp of dp rank "),
                         HasSubstr(other == Other::kGroup
                                       ? "rank 1 called mesh:sum (a.lua:2) on group 'world'"
                                       : "rank 1 called barrier on group 'world'"))));
      EXPECT_LT(absl::Now() - start, absl::Minutes(5)) << "the deadline is 10 minutes";
    });
  }
}

// Ranks may wait for a late one for longer than a standstill takes to be found, in whatever calls.
TEST(MatchedCall, ALateRankIsNoStandstill) {
  RunRanks(4, [](std::shared_ptr<World> world) {
    const auto mesh = Mesh::Create(world, 2);
    ASSERT_OK(mesh.status());
    if (world->rank() == 3) absl::SleepFor(absl::Seconds(4));
    EXPECT_OK(Match((*mesh)->sp(), {"mesh:sum_sp", ""}).status());
    EXPECT_OK(Match((*mesh)->dp(), {"mesh:sum_dp", ""}).status());
    EXPECT_OK(Match((*mesh)->world(), {"mesh:sum", ""}).status());
  });
}

}  // namespace
}  // namespace moonring::comm
