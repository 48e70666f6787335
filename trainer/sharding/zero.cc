#include "trainer/sharding/zero.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "comm/packed_home.h"
#include "trainer/sharding/disk_memory.h"
#include "trainer/sharding/sharded_weight.h"

namespace moonring::trainer {

absl::StatusOr<std::shared_ptr<Zero>> Zero::Create(ZeroOptions options, comm::Mesh& mesh) {
  if (options.stage < 0 || options.stage > 3)
    return absl::InvalidArgumentError(
        absl::StrCat("zero_stage: expected 0 to 3, got ", options.stage));
  std::shared_ptr<Zero> zero(new Zero(std::move(options)));
  const ZeroOptions& wanted = zero->options_;
  if (wanted.apart && wanted.stage > 0 && wanted.group != ZeroGroup::kSp) {
    return absl::InvalidArgumentError(
        absl::StrCat("zero_group: expected sp where sp groups have states of their own, got ",
                     wanted.group == ZeroGroup::kNode ? "node" : "world"));
  }
  if (wanted.apart && wanted.expert_ranks > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expert_parallel_size: expected 1 where sp groups have states of their own, got ",
        wanted.expert_ranks));
  }
  const int world = mesh.world().size();
  int parting = world;
  if (wanted.group == ZeroGroup::kSp) parting = mesh.sp_size();
  if (wanted.group == ZeroGroup::kNode && wanted.ranks_per_machine > 0)
    parting = wanted.ranks_per_machine;
  if (wanted.stage == 0) parting = 1;
  if (world % parting != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "zero_group: node: ", parting, " ranks of a machine do not divide world size ", world));
  }
  ASSIGN_OR_RETURN(const comm::Mesh::Cut cut, mesh.CutWorld(parting), "zero_group");
  zero->shards_ = cut.neighbours;
  zero->replicas_ = cut.peers;
  if (wanted.apart)
    zero->replicas_ = wanted.stage == 0 ? mesh.sp_group() : comm::Communicator::Alone();
  if (wanted.expert_ranks < 1 || world % wanted.expert_ranks != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("expert_parallel_size: expected a divisor of the ", world, " ranks, got ",
                     wanted.expert_ranks));
  }
  if (wanted.expert_ranks > 1 && (wanted.offload != Offload::kNone || wanted.streams)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expert_parallel_size: expected 1 with offload_optimizer or offload_weights, "
                     "got ",
                     wanted.expert_ranks));
  }
  ASSIGN_OR_RETURN(const comm::Mesh::Cut experts, mesh.CutWorld(wanted.expert_ranks),
                   "expert_parallel_size");
  zero->experts_ = experts.neighbours;
  zero->expert_peers_ = experts.peers;
  // All ranks of an sp group have the same stream of micro-batches.
  const auto mixes = [&](int ranks) { return ranks > 1 && mesh.sp_size() % ranks != 0; };
  zero->lockstep_ = (wanted.stage >= 2 && mixes(parting)) || mixes(wanted.expert_ranks);
  if (wanted.streams && wanted.stage != 0 && wanted.stage != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("offload_weights: expected zero_stage 0 or 3, got ", wanted.stage,
                     ", which gathers whole weights after each step"));
  }
  if (wanted.offload == Offload::kDisk) {
    ASSIGN_OR_RETURN(zero->memory_, DiskMemory::Create(wanted.folder));
  }
  return zero;
}

bool Zero::Streams(const base::Parameter& parameter) const {
  return options_.streams && parameter.device().is_cuda() && parameter.shape().size() >= 2 &&
         (!parameter.trainable() || options_.offload != Offload::kNone);
}

const std::shared_ptr<base::SideStream>& Zero::Coming(at::Device device) {
  if (coming_ == nullptr) coming_ = std::make_shared<base::SideStream>(device);
  return coming_;
}

void Zero::Part(base::Parameter& parameter) {
  if (const auto packed = std::dynamic_pointer_cast<comm::PackedHome>(parameter.home())) {
    if (options_.stage == 3) packed->Shard(shards_);
    return;
  }
  const bool streams = Streams(parameter);
  if ((options_.stage < 3 && !streams) || parameter.away() || parameter.keeps_rows()) return;
  const auto home = std::make_shared<ShardedWeight>(parameter, shards_);
  if (streams) {
    home->ComeFromHost(Coming(parameter.device()));
    home->MoveToHost();
  }
  parameter.MoveWeight(home);
}

}  // namespace moonring::trainer
