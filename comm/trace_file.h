#ifndef MOONRING_COMM_TRACE_FILE_H_
#define MOONRING_COMM_TRACE_FILE_H_

// Writes one trace file with what all ranks recorded, in the time of rank 0's clock.
//
// Cost: each rank sends its events to rank 0 as text, one rank after another, so that rank 0 stores
// those of one rank at a time; about 150 bytes per event.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/trace/recorder.h"
#include "comm/communicator.h"
#include "comm/rank_clocks.h"

namespace moonring::comm {

struct TraceFileOptions {
  std::string path;           // used on rank 0
  std::string details;        // a JSON object for "otherData" of the file; used on rank 0
  ClockOffset before, after;  // this rank's clock when the recording began and ended
};

struct TraceFacts {
  int64_t left_out = 0;     // omitted spans, on all ranks
  int64_t uncertainty = 0;  // largest clock error of all ranks, in ns
};

// Returns the same facts on all ranks. Collective over the group; the recorders must have stopped.
// If the file cannot be written, only rank 0 returns the error, after all ranks have taken part.
absl::StatusOr<TraceFacts> WriteTrace(const base::TraceRecorder& recorder, Communicator& group,
                                      const TraceFileOptions& options);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_TRACE_FILE_H_
