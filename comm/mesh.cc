#include "comm/mesh.h"

#include <utility>
#include <vector>

#include <ATen/ops/tensor.h>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"

namespace moonring::comm {

Mesh::Mesh(std::shared_ptr<World> world, std::shared_ptr<Communicator> dp,
           std::shared_ptr<Communicator> sp)
    : world_(std::move(world)), dp_(std::move(dp)), sp_(std::move(sp)) {}

namespace {

// Each rank is in one group of neighbours and one group of peers. Every rank goes through all
// groups, so that all ranks create them in the same order.
absl::StatusOr<Mesh::Cut> MakeGroups(World& world, int size, absl::string_view neighbours,
                                     absl::string_view peers) {
  const int count = world.size() / size;
  Mesh::Cut mine;
  for (int g = 0; g < count; ++g) {
    std::vector<int> ranks;
    for (int place = 0; place < size; ++place) ranks.push_back(g * size + place);
    ASSIGN_OR_RETURN(
        std::shared_ptr<Communicator> group,
        world.Split(ranks, count == 1 ? std::string(neighbours)
                                      : absl::StrCat(neighbours, " of ", peers, " rank ", g)));
    if (group != nullptr) mine.neighbours = std::move(group);
  }
  for (int place = 0; place < size; ++place) {
    std::vector<int> ranks;
    for (int g = 0; g < count; ++g) ranks.push_back(g * size + place);
    ASSIGN_OR_RETURN(
        std::shared_ptr<Communicator> group,
        world.Split(ranks, size == 1 ? std::string(peers)
                                     : absl::StrCat(peers, " of ", neighbours, " rank ", place)));
    if (group != nullptr) mine.peers = std::move(group);
  }
  return mine;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Mesh>> Mesh::Create(std::shared_ptr<World> world, int sp) {
  const int size = world->size();
  if (sp < 1) return absl::InvalidArgumentError(absl::StrCat("sp=", sp, ", expected at least 1"));
  at::Tensor bounds =
      at::tensor(std::vector<int64_t>{sp, -sp}, at::kLong);  // for the maximum and the minimum
  RETURN_IF_ERROR(world->communicator()->AllReduceMax(bounds));
  const int64_t most = bounds[0].item<int64_t>(), least = -bounds[1].item<int64_t>();
  if (most != least)
    return absl::InvalidArgumentError(
        absl::StrCat("sp is ", least, " on a rank, and ", most, " on another: this one has ", sp));
  if (size % sp != 0)
    return absl::InvalidArgumentError(
        absl::StrCat("sp=", sp, " does not divide world size ", size));
  ASSIGN_OR_RETURN(Cut cut, MakeGroups(*world, sp, "sp", "dp"));
  return std::shared_ptr<Mesh>(
      new Mesh(std::move(world), std::move(cut.peers), std::move(cut.neighbours)));
}

absl::StatusOr<Mesh::Cut> Mesh::CutWorld(int size) const {
  if (size < 1 || world_->size() % size != 0)
    return absl::InvalidArgumentError(
        absl::StrCat("groups of ", size, " ranks do not divide world size ", world_->size()));
  if (size == sp_size()) return Cut{sp_, dp_};
  if (size == world_->size()) return Cut{world_group(), Communicator::Alone()};
  if (size == 1) return Cut{Communicator::Alone(), world_group()};
  return MakeGroups(*world_, size, "neighbours", "peers");
}

absl::StatusOr<std::shared_ptr<Communicator>> Mesh::AnotherDpGroup(const std::string& name) const {
  if (dp_size() == 1) return Communicator::Alone();
  std::shared_ptr<Communicator> mine;
  for (int place = 0; place < sp_size(); ++place) {
    std::vector<int> ranks;
    for (int group = 0; group < dp_size(); ++group) ranks.push_back(group * sp_size() + place);
    ASSIGN_OR_RETURN(std::shared_ptr<Communicator> made,
                     world_->Split(ranks, absl::StrCat(name, " of sp rank ", place)));
    if (made != nullptr) mine = std::move(made);
  }
  return mine;
}

absl::StatusOr<std::shared_ptr<const Layout>> Mesh::MakeLayout(std::vector<int64_t> lengths,
                                                               Division division,
                                                               SpanCost cost) const {
  if (division.ranks() != sp_size()) {
    return absl::InvalidArgumentError(absl::StrCat("layout: context x heads = ", division.contexts,
                                                   " x ", division.heads, " on an sp group of ",
                                                   sp_size()));
  }
  return Layout::Create(std::move(lengths), division, std::move(cost));
}

}  // namespace moonring::comm
