#ifndef MOONRING_COMM_TRACE_FILE_H_
#define MOONRING_COMM_TRACE_FILE_H_

// One file of what all ranks recorded, on rank 0's clock.
//
// Cost: each rank's events go to rank 0 as text, one rank after another, so that it holds those of
// one; some 150 bytes an event.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/trace/recorder.h"
#include "comm/communicator.h"
#include "comm/rank_clocks.h"

namespace moonring::comm {

struct TraceFileOptions {
  std::string path;           // rank 0's
  std::string details;        // a JSON object: "otherData" of the file, rank 0's
  ClockOffset before, after;  // this rank's clock when the recording began and ended
};

struct TraceFacts {
  int64_t left_out = 0;     // spans, on all ranks
  int64_t uncertainty = 0;  // of the clocks, at the most; ns
};

// The same facts on all ranks. Collective over the group; recorders have stopped. Where the file
// cannot be written rank 0 alone says why, and all have taken part.
absl::StatusOr<TraceFacts> WriteTrace(const base::TraceRecorder& recorder, Communicator& group,
                                      const TraceFileOptions& options);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_TRACE_FILE_H_
