#include "trainer/checkpoint/saved_states.h"

#include <algorithm>
#include <set>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/memory/memory_account.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "trainer/optimizer/moment.h"
#include "trainer/sharding/zero_cost.h"

namespace moonring::trainer {
namespace {

constexpr absl::string_view kWeight = "weight/";

bool EndsWithScale(absl::string_view key) {
  return absl::EndsWith(key.substr(0, key.find('/')), "_scale");
}

// Returns the tensors of each rank with the 8-bit codes of the moment `key` decoded.
std::vector<StateTensors> DecodedRanks(const std::vector<StateTensors>& saved,
                                       const std::string& key) {
  const size_t slash = key.find('/');
  const bool is_signed = key.substr(0, slash) == "exp_avg";
  const std::string scale = absl::StrCat(key.substr(0, slash), "_scale", key.substr(slash));
  std::vector<StateTensors> decoded;
  for (const StateTensors& tensors : saved) {
    decoded.emplace_back();
    // an empty shard, or an error reported elsewhere
    if (!tensors.contains(key) || !tensors.contains(scale)) continue;
    decoded.back()[key] = DecodedMoment(tensors.at(key), tensors.at(scale), is_signed);
  }
  return decoded;
}

// For experts that are sharded over ranks: joins the rows of all these ranks and replaces each
// tensor by this rank's section of the joined one (zero_cost.h).
void JoinRows(const States& states, StateTensors& tensors, bool keeps) {
  std::map<std::string, std::shared_ptr<base::Parameter>> rows;
  for (const auto& shard : states.shards()) {
    if (states.KeepsRows(*shard)) rows[shard->name()] = shard;
  }
  if (rows.empty()) return;
  const comm::Communicator& shards = *states.zero()->shards();
  const StateTensors mine = tensors;
  for (const auto& [key, tensor] : mine) {  // the keys are the same on all ranks
    const auto found = rows.find(key.substr(key.find('/') + 1));
    if (found == rows.end() || tensor.dim() == 0) continue;
    tensors.erase(key);
    if (EndsWithScale(key)) continue;
    const bool codes = tensor.scalar_type() == at::kByte;
    const at::Tensor whole = states.JoinRows(
        *found->second, codes ? DecodedRanks({mine}, key).front().at(key) : tensor.view({-1}));
    const std::vector<int64_t> parts = PartsOf(whole.numel(), shards.size());
    if (keeps) {
      tensors[key] = whole.narrow(0, PartBegin(parts, shards.rank()), parts[shards.rank()])
                         .to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
    }
  }
}

std::set<std::string> Keys(const std::vector<StateTensors>& saved) {
  std::set<std::string> keys;
  for (const StateTensors& tensors : saved) {
    for (const auto& [key, tensor] : tensors) keys.insert(key);
  }
  return keys;
}

}  // namespace

absl::StatusOr<at::Tensor> SavedPart(const std::vector<StateTensors>& saved, const std::string& key,
                                     int64_t numel, int64_t begin, int64_t count) {
  const std::vector<int64_t> parts = PartsOf(numel, static_cast<int>(saved.size()));
  at::Tensor gathered;
  int64_t at = 0;
  for (size_t rank = 0; rank < saved.size(); at += parts[rank], ++rank) {
    const auto found = saved[rank].find(key);
    if (found == saved[rank].end()) {
      if (parts[rank] == 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", rank, "'s part of ", key, " is missing"));
    }
    const at::Tensor& part = found->second;
    if (part.dim() != 1 || part.numel() != parts[rank]) {
      return absl::InvalidArgumentError(absl::StrCat(key, ": rank ", rank, " kept ", part.numel(),
                                                     " numbers, expected ", parts[rank], " of ",
                                                     numel));
    }
    const int64_t first = std::max(begin, at), end = std::min(begin + count, at + parts[rank]);
    if (first == begin && end == begin + count)
      return part.narrow(0, first - at, count);  // the whole range is in this shard
    if (!gathered.defined()) gathered = at::empty({count}, part.options());
    if (first < end)
      gathered.narrow(0, first - begin, end - first).copy_(part.narrow(0, first - at, end - first));
  }
  return gathered;
}

absl::StatusOr<StateTensors> SaveStates(const States& states, const Optimizer& optimizer,
                                        bool keeps) {
  at::NoGradGuard no_grad;
  StateTensors tensors = optimizer.SaveState();
  for (const auto& shard : states.shards())
    tensors[absl::StrCat(kWeight, shard->name())] = shard->weight();
  RETURN_IF_ERROR(base::TryTorch([&] { JoinRows(states, tensors, keeps); }),
                  "trainer.saved_states: rows of all ranks");
  return keeps ? std::move(tensors) : StateTensors();
}

absl::Status LoadStates(States& states, Optimizer& optimizer,
                        const std::vector<StateTensors>& saved) {
  at::NoGradGuard no_grad;
  TORCH_CHECK(!saved.empty(), "trainer.saved_states: states of no rank");
  std::map<std::string, std::shared_ptr<base::Parameter>> by_name;
  for (const auto& shard : states.shards()) by_name[shard->name()] = shard;
  const int ranks = states.zero()->shards()->size(), rank = states.zero()->shards()->rank();
  StateTensors of_optimizer;
  size_t weights = 0;
  for (const std::string& key : Keys(saved)) {
    const std::string name = key.substr(key.find('/') + 1);
    const auto found = by_name.find(name);
    if (found == by_name.end())
      return absl::InvalidArgumentError(
          absl::StrCat("the checkpoint has states of ", name, ", which is not trainable here"));
    base::Parameter& shard = *found->second;
    const auto any = std::find_if(saved.begin(), saved.end(), [&](const StateTensors& tensors) {
      return tensors.contains(key);
    });
    const bool rows = states.KeepsRows(shard);
    const bool same_shards = static_cast<int>(saved.size()) == ranks && !rows;
    if (EndsWithScale(key)) {
      if (same_shards && saved[rank].contains(key)) of_optimizer[key] = saved[rank].at(key);
      continue;
    }
    if (any->at(key).dim() != 1) {  // a scalar for the whole weight, or a whole tensor
      of_optimizer[key] = any->at(key);
      continue;
    }
    const std::vector<int64_t> parts = PartsOf(shard.numel(), ranks);
    const bool decodes = any->at(key).scalar_type() == at::kByte && !same_shards;
    ASSIGN_OR_RETURN(at::Tensor part,
                     SavedPart(decodes ? DecodedRanks(saved, key) : saved, key, shard.numel(),
                               rows ? shard.begin() : PartBegin(parts, rank),
                               rows ? shard.weight().numel() : parts[rank]));
    if (!absl::StartsWith(key, kWeight)) {
      of_optimizer[key] = std::move(part);
      continue;
    }
    ++weights;
    if (part.scalar_type() != shard.weight().scalar_type()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " was kept in ", c10::toString(part.scalar_type()),
                       ", here it is trained in ", c10::toString(shard.weight().scalar_type())));
    }
    shard.weight().copy_(part);
    base::CountWritten(base::MemoryPart::kWeights, shard.weight());
  }
  if (weights != by_name.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the checkpoint has states of ", weights,
                                                   " of the ", by_name.size(),
                                                   " trainable weights here"));
  }
  return optimizer.LoadState(of_optimizer);
}

}  // namespace moonring::trainer
