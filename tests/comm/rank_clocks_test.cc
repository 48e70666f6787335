#include "comm/rank_clocks.h"

#include <cstdlib>

#include "base/trace/recorder.h"
#include "comm/process_groups.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::comm {
namespace {

using ::moonring::testing::RunRanks;

// Measured offsets of clocks with known offsets are within their uncertainty.
TEST(RankClocksTest, AnOffsetIsWithinItsUncertainty) {
  RunRanks(4, [](std::shared_ptr<World> world) {
    Communicator& comm = *world->communicator();
    const int64_t behind = int64_t{1'000'000'007} * comm.rank() - 2'000'000'000 * (comm.rank() % 2);
    const auto clock = [&] { return base::SteadyNanoseconds() - behind; };
    const auto offset = MeasureClock(comm, clock, /*clock_id=*/0);
    ASSERT_OK(offset);
    EXPECT_LE(std::abs(offset->to_first - behind), offset->uncertainty);
    if (comm.rank() == 0) {
      EXPECT_EQ(offset->uncertainty, 0);
    } else {
      EXPECT_GT(offset->uncertainty, 0);
      EXPECT_LT(offset->uncertainty, 1'000'000'000);
    }
  });
}

TEST(RankClocksTest, OneClockNeedsNoMeasuring) {
  RunRanks(3, [](std::shared_ptr<World> world) {
    Communicator& comm = *world->communicator();
    const int64_t sent = comm.counters().bytes_sent;
    const auto same = MeasureClock(comm, base::SteadyNanoseconds, SteadyClockId());
    ASSERT_OK(same);
    EXPECT_EQ(same->to_first, 0);
    EXPECT_EQ(same->uncertainty, 0);
    EXPECT_EQ(comm.counters().bytes_sent - sent, 2 * 8);  // the clock's id, to each other rank
    // Only rank 2's clock is measured, since its id differs from rank 0's.
    const auto some = MeasureClock(comm, base::SteadyNanoseconds, comm.rank() == 2 ? 0 : 5);
    ASSERT_OK(some);
    EXPECT_EQ(some->uncertainty > 0, comm.rank() == 2);
  });
}

// Between two measurements, the offset is interpolated linearly.
TEST(RankClocksTest, ADriftingClockIsFollowed) {
  const ClockOffset before{.at = 1000, .to_first = 50}, after{.at = 2000, .to_first = 70};
  EXPECT_EQ(ByFirstClock(1000, before, after), 1050);
  EXPECT_EQ(ByFirstClock(1500, before, after), 1560);
  EXPECT_EQ(ByFirstClock(2000, before, after), 2070);
  EXPECT_EQ(ByFirstClock(1000, before, before), 1050);
}

}  // namespace
}  // namespace moonring::comm
