#include "comm/mesh.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/status_macros.h"

namespace moonring::comm {

Mesh::Mesh(std::shared_ptr<World> world, std::shared_ptr<Communicator> dp, std::shared_ptr<Communicator> sp)
    : world_(std::move(world)), dp_(std::move(dp)), sp_(std::move(sp)) {}

absl::StatusOr<std::shared_ptr<Mesh>> Mesh::Create(std::shared_ptr<World> world, int sp) {
  const int size = world->size();
  if (sp < 1) return absl::InvalidArgumentError(absl::StrCat("sp=", sp, ", wanted at least 1"));
  if (size % sp != 0) return absl::InvalidArgumentError(absl::StrCat("sp=", sp, " does not divide world size ", size));
  const int dp = size / sp;
  // Each rank is in one group of either kind; it passes all lists, so that all make their groups in one order.
  std::shared_ptr<Communicator> my_sp, my_dp;
  for (int d = 0; d < dp; ++d) {
    std::vector<int> ranks;
    for (int s = 0; s < sp; ++s) ranks.push_back(d * sp + s);
    ASSIGN_OR_RETURN(std::shared_ptr<Communicator> group, world->Split(ranks, dp == 1 ? "sp" : absl::StrCat("sp of dp rank ", d)));
    if (group != nullptr) my_sp = std::move(group);
  }
  for (int s = 0; s < sp; ++s) {
    std::vector<int> ranks;
    for (int d = 0; d < dp; ++d) ranks.push_back(d * sp + s);
    ASSIGN_OR_RETURN(std::shared_ptr<Communicator> group, world->Split(ranks, sp == 1 ? "dp" : absl::StrCat("dp of sp rank ", s)));
    if (group != nullptr) my_dp = std::move(group);
  }
  return std::shared_ptr<Mesh>(new Mesh(std::move(world), std::move(my_dp), std::move(my_sp)));
}

absl::StatusOr<std::shared_ptr<const Layout>> Mesh::MakeLayout(std::vector<int64_t> lengths, Division division, SpanCost cost) const {
  if (division.ranks() != sp_size()) {
    return absl::InvalidArgumentError(absl::StrCat("layout: context x heads = ", division.contexts, " x ", division.heads, " on an sp group of ", sp_size()));
  }
  return Layout::Create(std::move(lengths), division, std::move(cost));
}

}  // namespace moonring::comm
