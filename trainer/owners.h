#ifndef MOONRING_TRAINER_OWNERS_H_
#define MOONRING_TRAINER_OWNERS_H_

// Whole tensors out of shards, each on one rank of a group, its owner: for work on a whole matrix
// that one rank does for all.
//
//   owners     the next tensor goes to the rank that has the fewest numbers so far, the lowest of
//              equals. From the shapes alone, so the same on every rank
//   gather     each rank sends its part (zero_cost.h) to the owner
//   scatter    the owner sends each rank its part back
//
// Bytes: of a tensor of n numbers P-1 ranks send their parts, or are sent them: n in all, less the
// owner's own part. One transfer for all tensors of a call. A group of one copies nothing: the
// whole is its part.

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "comm/communicator.h"

namespace moonring::trainer {

std::vector<int> OwnersOf(const std::vector<int64_t>& numels, int ranks);

struct OwnedTensor {
  at::Tensor part;    // [part] of this rank, contiguous
  int64_t numel = 0;  // of the whole
  int owner = 0;
  at::Tensor whole = {};  // [numel] on the owner alone: made by Gather, read by Scatter
};

// Both are calls of every rank of the group, with the same tensors in the same order.
absl::Status GatherToOwners(comm::Communicator& group, std::vector<OwnedTensor>& tensors);
absl::Status ScatterFromOwners(comm::Communicator& group, std::vector<OwnedTensor>& tensors);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_OWNERS_H_
