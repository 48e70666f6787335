#ifndef MOONRING_COMM_RANK_CLOCKS_H_
#define MOONRING_COMM_RANK_CLOCKS_H_

// Measures the offset between a rank's clock and rank 0's.
//
// Rank 0 asks each other rank for its time. Rank 0 sends the request at time a of its own clock,
// and has the answer at time b; the other rank's clock read t in between. The other clock is behind
// by
//
//   (a + b) / 2 - t,  with an error of at most (b - a) / 2
//
// Of several round trips the quickest counts. Ranks that read the same clock as rank 0 (same
// machine, boot and time namespace) need no round trip and have offset 0.

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "comm/communicator.h"

namespace moonring::comm {

// All numbers are nanoseconds.
struct ClockOffset {
  int64_t at = 0;           // when it was measured, by this rank's clock
  int64_t to_first = 0;     // rank 0's clock minus this rank's
  int64_t uncertainty = 0;  // the largest possible error of to_first
};

// Returns an id that is equal on ranks that read the same steady clock; 0 if it cannot be
// determined.
int64_t SteadyClockId();

// Collective over the group. Sends 2 messages of 8 bytes per round trip with each rank, one rank
// after another. `clock_id`: from SteadyClockId(); with 0 the offset is always measured.
absl::StatusOr<ClockOffset> MeasureClock(Communicator& group, const std::function<int64_t()>& clock,
                                         int64_t clock_id, int round_trips = 16);

// Converts a time of this rank's clock to rank 0's, interpolating linearly between the offsets
// measured before and after it, because a clock may run fast or slow.
int64_t ByFirstClock(int64_t time, const ClockOffset& before, const ClockOffset& after);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_RANK_CLOCKS_H_
