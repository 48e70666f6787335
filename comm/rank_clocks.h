#ifndef MOONRING_COMM_RANK_CLOCKS_H_
#define MOONRING_COMM_RANK_CLOCKS_H_

// How far a rank's clock is from rank 0's.
//
// Rank 0 asks each other one for its time, and is answered: at a, by its own clock, it asks, at b
// the answer is there, and in between the other's clock said t. So this is behind by
//
//   (a + b) / 2 - t,  give or take (b - a) / 2
//
// Of several round trips the quickest counts. Ranks whose clock is rank 0's own (one machine, one
// boot, one time namespace) need none, and are off by nothing.

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "comm/communicator.h"

namespace moonring::comm {

// Nanoseconds.
struct ClockOffset {
  int64_t at = 0;           // by the own clock, when it was measured
  int64_t to_first = 0;     // added to the own clock gives rank 0's
  int64_t uncertainty = 0;  // at the most
};

// Equal on ranks that read the same steady clock; 0: not known.
int64_t SteadyClockId();

// Collective over the group; 2 messages of 8 bytes a round trip with each rank, one after another.
// `clock_id`: as SteadyClockId gives it; 0 always measures.
absl::StatusOr<ClockOffset> MeasureClock(Communicator& group, const std::function<int64_t()>& clock,
                                         int64_t clock_id, int round_trips = 16);

// A time of the own clock by rank 0's, from what was measured before and after it: a clock may run
// fast or slow.
int64_t ByFirstClock(int64_t time, const ClockOffset& before, const ClockOffset& after);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_RANK_CLOCKS_H_
