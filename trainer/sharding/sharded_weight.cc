#include "trainer/sharding/sharded_weight.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>

#include "base/memory/memory_account.h"
#include "base/memory/pinned_memory.h"
#include "base/status/torch_status.h"
#include "trainer/sharding/zero_cost.h"

namespace moonring::trainer {
namespace {

at::Tensor OnHost(const at::Tensor& master, at::ScalarType dtype) {
  const at::Tensor there = base::PinnedTensor(master.sizes(), dtype);
  there.copy_(master.to(dtype));
  return there;
}

// Copies from the host to a GPU in pieces, and casts there: LibTorch would cast on the host and
// wait for the copy.
void CopyOver(const at::Tensor& to, const at::Tensor& from) {
  constexpr int64_t kPiece = int64_t{1} << 23;
  if (to.scalar_type() == from.scalar_type() || to.device() == from.device()) {
    to.copy_(from, /*non_blocking=*/true);
    return;
  }
  const at::Tensor buffer =
      at::empty({std::min(kPiece, from.numel())}, to.options().dtype(from.scalar_type()));
  for (int64_t begin = 0; begin < from.numel(); begin += kPiece) {
    const int64_t count = std::min(kPiece, from.numel() - begin);
    const at::Tensor piece = buffer.narrow(0, 0, count);
    piece.copy_(from.narrow(0, begin, count), /*non_blocking=*/true);
    to.narrow(0, begin, count).copy_(piece);
  }
}

}  // namespace

ShardedWeight::ShardedWeight(const base::Parameter& parameter,
                             std::shared_ptr<comm::Communicator> group)
    : group_(std::move(group)),
      shape_(parameter.shape().vec()),
      parts_(PartsOf(parameter.numel(), group_->size())),
      device_(parameter.device()) {
  at::NoGradGuard no_grad;
  const base::MemoryScope memory(base::MemoryPart::kWeights);
  master_ = parameter.weight().flatten().narrow(0, begin(), parts_[group_->rank()]).clone();
}

int64_t ShardedWeight::begin() const { return PartBegin(parts_, group_->rank()); }

bool ShardedWeight::Keeps(const at::Tensor& kept, at::ScalarType dtype) const {
  return kept.defined() && c10::elementSize(dtype) <= kept.element_size();
}

void ShardedWeight::KeepPart(at::ScalarType dtype, bool on_host) {
  const base::MemoryScope memory(base::MemoryPart::kWeights);
  if (on_host) {
    kept_part_ = OnHost(master_, dtype);
  } else {
    kept_part_ = master_.to(device_, dtype, /*non_blocking=*/false, /*copy=*/true);
  }
}

void ShardedWeight::MoveToHost() {
  const base::MemoryScope memory(base::MemoryPart::kWeights);
  master_ = OnHost(master_, master_.scalar_type());
}

void ShardedWeight::AwaitReads() {
  if (come_.has_value() && !come_->query()) come_->synchronize();
}

// Discards a copy that was started by Fetch but not used by Lease. The stream that owns its memory
// must wait for the copy before it reuses the memory.
void ShardedWeight::DropFlight() {
  if (flight_.has_value() && !flight_->transfer.has_value()) come_->block(*flight_->stream);
  flight_.reset();
}

ShardedWeight::Flight ShardedWeight::Come(const at::Tensor& part, at::ScalarType dtype) {
  const c10::Stream current = coming_->Current();
  // `whole` has the shard's dtype, because copy engines cannot cast.
  at::Tensor whole =
      at::empty({part.numel()}, at::TensorOptions(device_).dtype(part.scalar_type()));
  base::WaitForStream(coming_->stream(), current);
  const c10::StreamGuard on(coming_->stream());
  whole.copy_(part, /*non_blocking=*/true);
  if (!come_.has_value()) come_.emplace(device_.type());
  come_->record(coming_->stream());
  return {dtype, std::move(whole), std::nullopt, current};
}

void ShardedWeight::Fetch(at::ScalarType dtype) {
  if (Keeps(kept_whole_, dtype) || (flight_.has_value() && flight_->dtype == dtype)) return;
  at::NoGradGuard no_grad;
  DropFlight();
  const at::Tensor& part = Keeps(kept_part_, dtype) ? kept_part_ : master_;
  if (group_->size() == 1 && coming_ != nullptr && part.is_cpu()) {
    flight_.emplace(Come(part, dtype));
    return;
  }
  // Gathers in the narrower of the shard's dtype and `dtype`: casting to a wider dtype before the
  // gather would only add zero bits.
  const at::ScalarType travelling =
      c10::elementSize(dtype) < part.element_size() ? dtype : part.scalar_type();
  const int64_t numel = std::accumulate(parts_.begin(), parts_.end(), int64_t{0});
  at::Tensor whole;
  if (group_->size() == 1 && part.device() == device_ && travelling == part.scalar_type()) {
    whole = part;
  } else {
    whole = at::empty({numel}, at::TensorOptions(device_).dtype(travelling));
    // An offloaded shard is only written after its gradient has arrived, which is later on this
    // stream.
    whole.narrow(0, begin(), part.numel()).copy_(part, /*non_blocking=*/true);
  }
  comm::Communicator::Transfer transfer =
      base::ValueOrThrow(group_->StartAllGather({{whole, parts_}}));
  flight_.emplace(Flight{dtype, std::move(whole), std::move(transfer), std::nullopt});
}

at::Tensor ShardedWeight::Lease(at::ScalarType dtype) {
  if (Keeps(kept_whole_, dtype)) return kept_whole_.to(dtype);
  Fetch(dtype);
  Flight flight = *std::exchange(flight_, std::nullopt);
  if (flight.transfer.has_value()) {
    base::ThrowIfError(flight.transfer->Wait());
  } else {
    const c10::Stream current = coming_->Current();
    come_->block(current);
    if (current != *flight.stream) flight.whole.record_stream(current);
  }
  return flight.whole.view(shape_).to(dtype);
}

void ShardedWeight::Write(const at::Tensor& whole) {
  at::NoGradGuard no_grad;
  AwaitReads();
  const at::Tensor held =
      whole.to(master_.scalar_type()).flatten();  // kept copies are cast from the master's dtype
  master_.copy_(held.narrow(0, begin(), master_.numel()));
  Refresh();
  if (kept_whole_.defined()) kept_whole_.view({-1}).copy_(held);
}

std::optional<comm::Communicator::Gathered> ShardedWeight::Refresh() {
  DropFlight();  // a copy started by Fetch before the update has old values
  AwaitReads();
  // Masters are only written after the next gradient has arrived, as in Fetch.
  if (kept_part_.defined()) CopyOver(kept_part_, master_);
  if (!kept_whole_.defined()) return std::nullopt;
  const at::Tensor flat = kept_whole_.view({-1});
  CopyOver(flat.narrow(0, begin(), master_.numel()), master_);
  return comm::Communicator::Gathered{flat, parts_};
}

int64_t ShardedWeight::bytes() const {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : {master_, kept_whole_, kept_part_})
    bytes += tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0;
  return bytes;
}

void WriteWeight(base::Parameter& parameter, const at::Tensor& whole) {
  TORCH_CHECK_VALUE(whole.sizes() == parameter.shape(), parameter.name(),
                    ": expected a tensor of shape ", parameter.shape(), ", got ", whole.sizes());
  at::NoGradGuard no_grad;
  if (!parameter.away()) {
    at::Tensor& weight = parameter.weight();
    base::CountWritten(base::MemoryPart::kWeights, weight);
    const int64_t row = whole.dim() == 0 || whole.size(0) == 0 ? 1 : whole.numel() / whole.size(0);
    weight.copy_(
        parameter.keeps_rows()
            ? whole.narrow(0, parameter.begin() / std::max<int64_t>(row, 1), weight.size(0))
            : whole);
    return;
  }
  const auto home = std::dynamic_pointer_cast<ShardedWeight>(parameter.home());
  TORCH_CHECK(home != nullptr, parameter.name(),
              ": its weight is stored where it cannot be written");
  home->Write(whole);
}

}  // namespace moonring::trainer
