#include "trainer/outer_steps.h"

#include <cmath>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "absl/strings/str_cat.h"
#include "base/memory/memory_account.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"

namespace moonring::trainer {
namespace {

constexpr char kCommon[] = "outer/", kMomentum[] = "outer_momentum/",
               kDifference[] = "outer_difference/";

absl::Status CheckOptions(const OuterOptions& options) {
  const auto refuse = [](const char* key, const char* wanted, double got) {
    return absl::InvalidArgumentError(absl::StrCat(key, ": expected ", wanted, ", got ", got));
  };
  if (!(options.learning_rate > 0.0) || !std::isfinite(options.learning_rate))
    return refuse("outer_learning_rate", "more than 0", options.learning_rate);
  if (!(options.momentum >= 0.0 && options.momentum < 1.0))
    return refuse("outer_momentum", "0 or more and less than 1", options.momentum);
  if (!(options.clip >= 0.0) || !std::isfinite(options.clip))
    return refuse("outer_momentum_clip", "0 or more", options.clip);
  return absl::OkStatus();
}

bool Any(const std::vector<StateTensors>& saved, const std::string& key) {
  for (const StateTensors& of_rank : saved) {
    if (of_rank.contains(key)) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::unique_ptr<OuterSteps>> OuterSteps::Create(OuterOptions options,
                                                               comm::Mesh& mesh,
                                                               std::shared_ptr<States> states) {
  RETURN_IF_ERROR(CheckOptions(options));
  TORCH_CHECK_VALUE(states->zero()->options().apart,
                    "outer_steps: expected independent states of sp groups (zero: apart)");
  ASSIGN_OR_RETURN(std::shared_ptr<comm::Communicator> groups, mesh.AnotherDpGroup("outer"));
  std::unique_ptr<OuterSteps> steps(new OuterSteps(options, std::move(groups), std::move(states)));
  RETURN_IF_ERROR(base::TryTorch([&] { steps->Begin(); }), "outer_steps");
  return steps;
}

void OuterSteps::Begin() {
  at::NoGradGuard no_grad;
  const base::MemoryScope memory(base::MemoryPart::kOptimizer);
  TORCH_CHECK(!shown_, "outer_steps: the weights are replaced by the synchronization point");
  slots_.clear();
  DropFlats();
  for (const auto& shard : states_->shards()) {
    Slot slot{shard,
              shard->weight().to(shard->gradient_dtype(), /*non_blocking=*/false,
                                 /*copy=*/true),
              {}};
    if (options_.momentum > 0.0) slot.momentum = at::zeros_like(slot.common);
    slots_.push_back(std::move(slot));
  }
}

void OuterSteps::MakeFlats() {
  if (!flats_.empty()) return;
  const base::MemoryScope memory(base::MemoryPart::kOptimizer);
  std::vector<int64_t> numels;
  std::vector<size_t> flat_of;
  std::vector<at::TensorOptions> kinds;
  for (const Slot& slot : slots_) {
    size_t flat = 0;
    while (flat < kinds.size() && (kinds[flat].device() != slot.common.device() ||
                                   kinds[flat].dtype() != slot.common.dtype()))
      ++flat;
    if (flat == kinds.size()) kinds.push_back(slot.common.options()), numels.push_back(0);
    flat_of.push_back(flat);
    numels[flat] += slot.common.numel();
  }
  for (size_t flat = 0; flat < kinds.size(); ++flat)
    flats_.push_back(at::empty({numels[flat]}, kinds[flat]));
  std::vector<int64_t> filled(flats_.size());
  for (size_t i = 0; i < slots_.size(); ++i) {
    const int64_t count = slots_[i].common.numel();
    slots_[i].difference = flats_[flat_of[i]].narrow(0, filled[flat_of[i]], count);
    filled[flat_of[i]] += count;
  }
}

void OuterSteps::DropFlats() {
  for (Slot& slot : slots_) slot.difference.reset();
  flats_.clear();
  arrived_ = false;
}

absl::Status OuterSteps::Send() {
  for (at::Tensor& flat : flats_) {
    ASSIGN_OR_RETURN(comm::Communicator::Transfer transfer, groups_->StartAllReduceSum(flat));
    travelling_.push_back(std::move(transfer));
  }
  return absl::OkStatus();
}

absl::Status OuterSteps::Arrive() {
  if (travelling_.empty()) return absl::OkStatus();
  for (comm::Communicator::Transfer& transfer : std::exchange(travelling_, {}))
    RETURN_IF_ERROR(transfer.Wait(), "the differences of a round");
  for (at::Tensor& flat : flats_) flat.div_(groups_->size());
  arrived_ = true;
  return absl::OkStatus();
}

void OuterSteps::Act(Slot& slot, at::Tensor difference) const {
  const bool has_momentum = slot.momentum.defined();
  at::Tensor mean = difference;
  if (has_momentum) mean = slot.momentum.mul_(options_.momentum).add_(difference);
  if (options_.clip > 0.0) mean.clamp_(-options_.clip, options_.clip);
  if (!options_.nesterov || !has_momentum) {
    slot.common.sub_(mean, options_.learning_rate);
    return;
  }
  slot.common.sub_(difference.add_(mean, options_.momentum), options_.learning_rate);
}

absl::Status OuterSteps::EndRound() {
  at::NoGradGuard no_grad;
  TORCH_CHECK(!shown_,
              "outer_steps: a round ends while the weights are replaced by the "
              "synchronization point");
  RETURN_IF_ERROR(Arrive(), "outer_steps");
  RETURN_IF_ERROR(base::TryTorch([&] {
                    states_->AwaitHost();
                    MakeFlats();
                    for (Slot& slot : slots_) {
                      at::Tensor& weight = slot.shard->weight();
                      const at::Tensor before = arrived_ ? slot.difference.clone() : at::Tensor();
                      // At the beginning of the round, the weight was slot.common, cast to its
                      // dtype.
                      slot.difference.copy_(slot.common.to(weight.scalar_type())).sub_(weight);
                      if (!options_.overlap) continue;
                      // slot.common has been read, so it can be updated now.
                      if (arrived_) Act(slot, before);
                      weight.copy_(slot.common);
                      base::CountWritten(base::MemoryPart::kWeights, weight);
                    }
                    arrived_ = false;
                  }),
                  "outer_steps");
  RETURN_IF_ERROR(Send(), "outer_steps");
  if (options_.overlap) return absl::OkStatus();
  return Finish().status();
}

absl::StatusOr<bool> OuterSteps::Finish() {
  at::NoGradGuard no_grad;
  TORCH_CHECK(!shown_,
              "outer_steps: it ends while the weights are replaced by the synchronization point");
  RETURN_IF_ERROR(Arrive(), "outer_steps");
  if (!arrived_) return false;
  RETURN_IF_ERROR(base::TryTorch([&] {
                    for (Slot& slot : slots_) {
                      Act(slot, slot.difference);
                      slot.shard->weight().copy_(slot.common);
                      base::CountWritten(base::MemoryPart::kWeights, slot.shard->weight());
                    }
                    DropFlats();
                  }),
                  "outer_steps");
  return true;
}

bool OuterSteps::ShowCommon(bool common) {
  if (common == shown_) return false;
  at::NoGradGuard no_grad;
  states_->AwaitHost();
  shown_ = common;
  for (Slot& slot : slots_) {
    at::Tensor& weight = slot.shard->weight();
    if (common) slot.own = weight.clone();
    weight.copy_(common ? slot.common : slot.own);
    base::CountWritten(base::MemoryPart::kWeights, weight);
    if (!common) slot.own.reset();
  }
  return true;
}

absl::StatusOr<StateTensors> OuterSteps::Save() {
  at::NoGradGuard no_grad;
  RETURN_IF_ERROR(Arrive(), "outer_steps");
  StateTensors tensors;
  for (const Slot& slot : slots_) {
    const std::string& name = slot.shard->name();
    tensors[absl::StrCat(kCommon, name)] = slot.common;
    if (slot.momentum.defined()) tensors[absl::StrCat(kMomentum, name)] = slot.momentum;
    if (arrived_) tensors[absl::StrCat(kDifference, name)] = slot.difference;
  }
  return tensors;
}

absl::Status OuterSteps::Load(const std::vector<StateTensors>& saved) {
  at::NoGradGuard no_grad;
  TORCH_CHECK(travelling_.empty(), "outer_steps: a round's differences are under way");
  RETURN_IF_ERROR(base::TryTorch([&] { Begin(); }), "outer_steps");
  if (saved.empty() || slots_.empty()) return absl::OkStatus();
  const bool under_way = Any(saved, absl::StrCat(kDifference, slots_.front().shard->name()));
  if (under_way && !options_.overlap) {
    return absl::InvalidArgumentError(
        "outer_overlap: expected true, as when it was saved, got false");
  }
  if (under_way) MakeFlats();
  for (Slot& slot : slots_) {
    const base::Parameter& shard = *slot.shard;
    const auto read = [&](const char* kind, at::Tensor& into) -> absl::Status {
      const std::string key = absl::StrCat(kind, shard.name());
      ASSIGN_OR_RETURN(const at::Tensor part,
                       SavedPart(saved, key, shard.numel(), shard.begin(), into.numel()),
                       "outer_steps");
      if (part.defined()) into.copy_(part);
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(read(kCommon, slot.common));
    if (slot.momentum.defined() && Any(saved, absl::StrCat(kMomentum, shard.name())))
      RETURN_IF_ERROR(read(kMomentum, slot.momentum));
    if (under_way) RETURN_IF_ERROR(read(kDifference, slot.difference));
  }
  arrived_ = under_way;
  return absl::OkStatus();
}

int64_t OuterSteps::state_bytes() const {
  int64_t bytes = 0;
  for (const Slot& slot : slots_) {
    for (const at::Tensor& tensor : {slot.common, slot.momentum, slot.own})
      bytes += tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0;
  }
  for (const at::Tensor& flat : flats_) bytes += static_cast<int64_t>(flat.nbytes());
  return bytes;
}

}  // namespace moonring::trainer
