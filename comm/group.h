#ifndef MOONRING_COMM_GROUP_H_
#define MOONRING_COMM_GROUP_H_

// The state behind a Communicator: the connections of one group of ranks. Created by
// process_groups, used by communicator.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comm/liveness.h"

namespace moonring::comm {

struct Group {
  std::string name = "alone";
  int rank = 0, size = 1;
  std::vector<int> ranks;  // their numbers in the world
  std::string id;          // unique, while names may repeat
  absl::Duration deadline = absl::InfiniteDuration();
  // One backend per kind of device; both are null in a group of one rank.
  c10::intrusive_ptr<c10d::Backend> cpu, cuda;
  // If true, `cuda` is null, and tensors on a GPU use `cpu` through host memory.
  bool staged = false;
  std::shared_ptr<Liveness> liveness;
  // OK while the group works. Otherwise why no later call can succeed: the first failure, or that
  // the group was closed. Only the rank's own thread reads and writes it.
  absl::Status broken;
  // Total time in calls, including the wait for transfers and for late peers. Only the rank's own
  // thread uses it.
  absl::Duration waited = absl::ZeroDuration();
  // The number of collectives so far, and of messages to and from each rank of the group. A call
  // has the same number on all its ranks, and traces use it to match the calls of different ranks.
  // Only the rank's own thread uses these numbers.
  int64_t calls = 0;
  std::vector<int64_t> sent, received;
  // The number of announced calls so far (Communicator::Announce).
  int64_t announced = 0;
};

}  // namespace moonring::comm

#endif  // MOONRING_COMM_GROUP_H_
