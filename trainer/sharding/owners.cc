#include "trainer/sharding/owners.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>

#include "base/status/status_macros.h"
#include "trainer/sharding/zero_cost.h"

namespace moonring::trainer {
namespace {

// The owner's messages for the sections of all other ranks, in rank order.
std::vector<comm::Communicator::Message> PartsOfOthers(const OwnedTensor& tensor, int ranks) {
  std::vector<comm::Communicator::Message> parts;
  const std::vector<int64_t> counts = PartsOf(tensor.numel, ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == tensor.owner) continue;
    parts.push_back({tensor.whole.narrow(0, PartBegin(counts, rank), counts[rank]), rank});
  }
  return parts;
}

at::Tensor OwnPart(const OwnedTensor& tensor, int ranks) {
  const std::vector<int64_t> counts = PartsOf(tensor.numel, ranks);
  return tensor.whole.narrow(0, PartBegin(counts, tensor.owner), counts[tensor.owner]);
}

// Moves data between the owners' whole tensors and the other ranks' sections.
absl::Status Move(comm::Communicator& group, const std::vector<OwnedTensor>& tensors,
                  bool to_owners) {
  std::vector<comm::Communicator::Message> of_wholes, of_parts;
  for (const OwnedTensor& tensor : tensors) {
    if (tensor.owner != group.rank()) {
      of_parts.push_back({tensor.part, tensor.owner});
      continue;
    }
    for (comm::Communicator::Message& part : PartsOfOthers(tensor, group.size()))
      of_wholes.push_back(std::move(part));
  }
  if (!to_owners) std::swap(of_wholes, of_parts);
  ASSIGN_OR_RETURN(comm::Communicator::Transfer transfer,
                   group.Exchange(std::move(of_parts), std::move(of_wholes)));
  return transfer.Wait();
}

}  // namespace

std::vector<int> OwnersOf(const std::vector<int64_t>& numels, int ranks) {
  std::vector<int64_t> loads(ranks);
  std::vector<int> owners;
  for (const int64_t numel : numels) {
    const auto least = std::min_element(loads.begin(), loads.end());
    owners.push_back(static_cast<int>(least - loads.begin()));
    *least += numel;
  }
  return owners;
}

absl::Status GatherToOwners(comm::Communicator& group, std::vector<OwnedTensor>& tensors) {
  const int ranks = group.size();
  for (OwnedTensor& tensor : tensors) {
    if (ranks == 1) tensor.whole = tensor.part;
    if (ranks == 1 || tensor.owner != group.rank()) continue;
    tensor.whole = at::empty({tensor.numel}, tensor.part.options());
    OwnPart(tensor, ranks).copy_(tensor.part);
  }
  return ranks == 1 ? absl::OkStatus() : Move(group, tensors, /*to_owners=*/true);
}

absl::Status ScatterFromOwners(comm::Communicator& group, std::vector<OwnedTensor>& tensors) {
  const int ranks = group.size();
  if (ranks == 1) return absl::OkStatus();
  for (OwnedTensor& tensor : tensors) {
    if (tensor.owner == group.rank()) tensor.part.copy_(OwnPart(tensor, ranks));
  }
  return Move(group, tensors, /*to_owners=*/false);
}

}  // namespace moonring::trainer
