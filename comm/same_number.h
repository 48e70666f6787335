#ifndef MOONRING_COMM_SAME_NUMBER_H_
#define MOONRING_COMM_SAME_NUMBER_H_

// Whether all ranks of a group have the same number, for example a checksum. Costs one all-reduce
// of 16 bytes. Every rank must call it. Fails as the communicator does.

#include <cstdint>

#include "absl/status/statusor.h"
#include "comm/communicator.h"

namespace moonring::comm {

absl::StatusOr<bool> IsSameNumber(Communicator& group, int64_t number);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_SAME_NUMBER_H_
