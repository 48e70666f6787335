#ifndef MOONRING_COMM_SAME_NUMBER_H_
#define MOONRING_COMM_SAME_NUMBER_H_

// Checks whether all ranks of a group have the same number, for example a checksum. Every rank must
// call it. Costs one all-reduce of 16 bytes; fails if the all-reduce fails.

#include <cstdint>

#include "absl/status/statusor.h"
#include "comm/communicator.h"

namespace moonring::comm {

absl::StatusOr<bool> IsSameNumber(Communicator& group, int64_t number);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_SAME_NUMBER_H_
