#ifndef MOONRING_TRAINER_SHARDING_OWNERS_H_
#define MOONRING_TRAINER_SHARDING_OWNERS_H_

// Assembles whole tensors from shards. Each whole tensor is assembled on one rank of a group, its
// owner, so that one rank can work on a whole matrix.
//
//   owners     the next tensor goes to the rank with the fewest elements so far (the lowest of
//              equal ones). Depends only on the shapes, so it is the same on every rank
//   gather     each rank sends its section (zero_cost.h) to the owner
//   scatter    the owner sends each rank its section back
//
// Communication for a tensor of n elements: n minus the size of the owner's section, in each
// direction. Each call makes one transfer for all its tensors. In a group of one, nothing is
// copied, because the section is the whole tensor.

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "comm/communicator.h"

namespace moonring::trainer {

std::vector<int> OwnersOf(const std::vector<int64_t>& numels, int ranks);

struct OwnedTensor {
  at::Tensor part;    // [section] of this rank, contiguous
  int64_t numel = 0;  // number of elements of the whole tensor
  int owner = 0;
  at::Tensor whole = {};  // [numel], only on the owner: set by Gather, read by Scatter
};

// Both functions are collectives: all ranks of the group must pass the same tensors in the same
// order.
absl::Status GatherToOwners(comm::Communicator& group, std::vector<OwnedTensor>& tensors);
absl::Status ScatterFromOwners(comm::Communicator& group, std::vector<OwnedTensor>& tensors);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_SHARDING_OWNERS_H_
