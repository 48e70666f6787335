#ifndef MOONRING_COMM_GROUP_H_
#define MOONRING_COMM_GROUP_H_

// What a Communicator stands on: the connections of one group of ranks. Made by process_groups,
// used by communicator.

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
  std::vector<int> ranks;  // of the world
  std::string id;          // its own, where names may be the same
  absl::Duration deadline = absl::InfiniteDuration();
  // One a kind of device; both null in a group of one.
  c10::intrusive_ptr<c10d::Backend> cpu, cuda;
  // `cuda` is null, and tensors on a GPU go by the host's memory and `cpu`.
  bool staged = false;
  std::shared_ptr<Liveness> liveness;
  // Why no call can succeed any more: the first failure, or that the group was closed. Read and
  // written by the rank's own thread.
  absl::Status broken;
  // In calls and their waits so far: transfers, and peers that are not there yet. By the same
  // thread.
  absl::Duration waited = absl::ZeroDuration();
  // Collectives so far, and messages to and from each rank of the group: the same numbers on all
  // ranks, by which traces find what belongs together. By the same thread.
  int64_t calls = 0;
  std::vector<int64_t> sent, received;
};

}  // namespace moonring::comm

#endif  // MOONRING_COMM_GROUP_H_
