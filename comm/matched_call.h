#ifndef MOONRING_COMM_MATCHED_CALL_H_
#define MOONRING_COMM_MATCHED_CALL_H_

// Collectives that a script calls. The engine's own calls match by construction; those of a script
// match only if the script takes the same path on every rank. If they did not, the backend would
// add a sum to a maximum, or bytes of different types, or wait until the deadline.
//
// So each call is announced first: all ranks of the group exchange a hash of what must be the same
// on all ranks (the function, the dtype, the shape). If the hashes differ, no data is exchanged:
// every rank of the group gets the same error, which says what each rank called, and where. The
// group stays usable, because all ranks have made the same exchanges.
//
// Ranks in calls on different groups, or in the engine's own calls, never meet. While a rank waits
// in an announced call, the call is published, and ranks that wait for one another end with an
// error too (comm/standstill.h, comm/liveness.h).
//
// Cost: an exchange of 16 bytes with each other rank, in parallel. It carries one number of the
// caller, so a sum of numbers needs no further message.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/communicator.h"

namespace moonring::comm {

struct ScriptCall {
  std::string what;  // what must be the same on all ranks: "mesh:sum_sp of fp32 [2, 3]"
  std::string site;  // where this rank makes it: "loss.lua:12"; for messages only
};

// Checks that all ranks of the group make the same call, and returns the `number` that each rank
// passed. ABORTED if the calls differ; otherwise the errors of a communicator.
absl::StatusOr<std::vector<int64_t>> Match(Communicator& group, const ScriptCall& call,
                                           int64_t number = 0);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_MATCHED_CALL_H_
