#include "trainer/sharded_weight.h"

#include <memory>
#include <numeric>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "comm/memory/memory_account.h"
#include "comm/status/torch_status.h"
#include "trainer/zero_cost.h"

namespace moonring::trainer {

ShardedWeight::ShardedWeight(const comm::Parameter& parameter,
                             std::shared_ptr<comm::Communicator> group)
    : group_(std::move(group)),
      shape_(parameter.shape().vec()),
      parts_(PartsOf(parameter.numel(), group_->size())),
      device_(parameter.device()) {
  at::NoGradGuard no_grad;
  const comm::MemoryScope memory(comm::MemoryPart::kWeights);
  master_ = parameter.weight().flatten().narrow(0, begin(), parts_[group_->rank()]).clone();
}

int64_t ShardedWeight::begin() const { return PartBegin(parts_, group_->rank()); }

bool ShardedWeight::Keeps(const at::Tensor& kept, at::ScalarType dtype) const {
  return kept.defined() && c10::elementSize(dtype) <= kept.element_size();
}

void ShardedWeight::KeepPart(at::ScalarType dtype) {
  const comm::MemoryScope memory(comm::MemoryPart::kWeights);
  kept_part_ = master_.to(device_, dtype, /*non_blocking=*/false, /*copy=*/true);
}

void ShardedWeight::Fetch(at::ScalarType dtype) {
  if (Keeps(kept_whole_, dtype) || (flight_.has_value() && flight_->dtype == dtype)) return;
  at::NoGradGuard no_grad;
  flight_.reset();
  const at::Tensor& part = Keeps(kept_part_, dtype) ? kept_part_ : master_;
  // Never wider than it is held: what is gained by a wider dtype is zeros.
  const at::ScalarType travelling =
      c10::elementSize(dtype) < part.element_size() ? dtype : part.scalar_type();
  const int64_t numel = std::accumulate(parts_.begin(), parts_.end(), int64_t{0});
  at::Tensor whole;
  if (group_->size() == 1 && part.device() == device_ && travelling == part.scalar_type()) {
    whole = part;
  } else {
    whole = at::empty({numel}, at::TensorOptions(device_).dtype(travelling));
    // An offloaded part is not written before its gradient has come, behind this on the stream.
    whole.narrow(0, begin(), part.numel()).copy_(part, /*non_blocking=*/true);
  }
  comm::Communicator::Transfer transfer =
      comm::ValueOrThrow(group_->StartAllGather({{whole, parts_}}));
  flight_.emplace(Flight{dtype, std::move(whole), std::move(transfer)});
}

at::Tensor ShardedWeight::Lease(at::ScalarType dtype) {
  if (Keeps(kept_whole_, dtype)) return kept_whole_.to(dtype);
  Fetch(dtype);
  Flight flight = *std::exchange(flight_, std::nullopt);
  comm::ThrowIfError(flight.transfer.Wait());
  return flight.whole.view(shape_).to(dtype);
}

void ShardedWeight::Write(const at::Tensor& whole) {
  at::NoGradGuard no_grad;
  const at::Tensor held =
      whole.to(master_.scalar_type()).flatten();  // what is kept is of the masters
  master_.copy_(held.narrow(0, begin(), master_.numel()));
  Refresh();
  if (kept_whole_.defined()) kept_whole_.view({-1}).copy_(held);
}

std::optional<comm::Communicator::Gathered> ShardedWeight::Refresh() {
  flight_.reset();  // begun before the update, for a lease that never came
  // The masters wait for the next gradient, as in Fetch.
  if (kept_part_.defined()) kept_part_.copy_(master_, /*non_blocking=*/true);
  if (!kept_whole_.defined()) return std::nullopt;
  const at::Tensor flat = kept_whole_.view({-1});
  flat.narrow(0, begin(), master_.numel()).copy_(master_, /*non_blocking=*/true);
  return comm::Communicator::Gathered{flat, parts_};
}

int64_t ShardedWeight::bytes() const {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : {master_, kept_whole_, kept_part_})
    bytes += tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0;
  return bytes;
}

void WriteWeight(comm::Parameter& parameter, const at::Tensor& whole) {
  TORCH_CHECK_VALUE(whole.sizes() == parameter.shape(), parameter.name(),
                    ": wanted a tensor of shape ", parameter.shape(), ", got ", whole.sizes());
  at::NoGradGuard no_grad;
  if (!parameter.away()) {
    comm::CountWritten(comm::MemoryPart::kWeights, parameter.weight());
    parameter.weight().copy_(whole);
    return;
  }
  const auto home = std::dynamic_pointer_cast<ShardedWeight>(parameter.home());
  TORCH_CHECK(home != nullptr, parameter.name(), ": its weight lies where nobody can write it");
  home->Write(whole);
}

}  // namespace moonring::trainer
