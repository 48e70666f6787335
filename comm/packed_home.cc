#include "comm/packed_home.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "base/memory/memory_account.h"
#include "base/status/torch_status.h"

namespace moonring::comm {
namespace {

// Even shard sizes for `ranks` ranks: all have the same size, except that the last ones may be
// smaller or empty.
std::vector<int64_t> PiecesOf(int64_t size, int ranks) {
  const int64_t most = (size + ranks - 1) / ranks;
  std::vector<int64_t> pieces;
  for (int r = 0; r < ranks; ++r) pieces.push_back(std::clamp<int64_t>(size - r * most, 0, most));
  return pieces;
}

int64_t BeginOf(const std::vector<int64_t>& pieces, int rank) {
  return std::accumulate(pieces.begin(), pieces.begin() + rank, int64_t{0});
}

}  // namespace

PackedHome::PackedHome(std::shared_ptr<const kernels::WeightCode> code,
                       kernels::PackedWeight packed)
    : code_(std::move(code)), packed_(std::move(packed)) {
  for (const at::Tensor& part : packed_.parts) base::CountAs(base::MemoryPart::kWeights, part);
}

void PackedHome::Shard(std::shared_ptr<Communicator> group) {
  TORCH_CHECK(group_ == nullptr, code_->name(), ": a packed weight is sharded twice");
  if (group->size() == 1) return;
  at::NoGradGuard no_grad;
  const base::MemoryScope memory(base::MemoryPart::kWeights);
  group_ = std::move(group);
  for (at::Tensor& part : packed_.parts) {
    pieces_.push_back(PiecesOf(part.numel(), group_->size()));
    const std::vector<int64_t>& pieces = pieces_.back();
    // A copy, because a view would keep the whole tensor alive.
    part = part.narrow(0, BeginOf(pieces, group_->rank()), pieces[group_->rank()]).clone();
  }
}

void PackedHome::Fetch(at::ScalarType) {
  if (group_ == nullptr || flight_.has_value()) return;
  kernels::PackedWeight whole{{}, packed_.shape};
  std::vector<Communicator::Gathered> gathered;
  for (size_t i = 0; i < packed_.parts.size(); ++i) {
    const std::vector<int64_t>& pieces = pieces_[i];
    const at::Tensor& mine = packed_.parts[i];
    const int64_t size = std::accumulate(pieces.begin(), pieces.end(), int64_t{0});
    whole.parts.push_back(at::empty({size}, mine.options()));
    whole.parts.back().narrow(0, BeginOf(pieces, group_->rank()), mine.numel()).copy_(mine);
    // int8 is sent as uint8, which the communicator supports.
    const at::Tensor& part = whole.parts.back();
    gathered.push_back({part.scalar_type() == at::kChar ? part.view(at::kByte) : part, pieces});
  }
  Communicator::Transfer transfer = base::ValueOrThrow(group_->StartAllGather(gathered));
  flight_.emplace(Flight{std::move(whole), std::move(transfer)});
}

at::Tensor PackedHome::Lease(at::ScalarType dtype) {
  at::Tensor out = at::empty(packed_.shape, packed_.parts[0].options().dtype(dtype));
  if (group_ == nullptr) {
    code_->Unpack(packed_, out);
    return out;
  }
  Fetch(dtype);
  Flight flight = *std::exchange(flight_, std::nullopt);
  base::ThrowIfError(flight.transfer.Wait());
  code_->Unpack(flight.whole, out);
  return out;
}

int64_t PackedHome::bytes() const {
  int64_t bytes = 0;
  for (const at::Tensor& part : packed_.parts) bytes += static_cast<int64_t>(part.nbytes());
  return bytes;
}

std::shared_ptr<base::Parameter> PackedParameter(std::string name,
                                                 std::shared_ptr<const kernels::WeightCode> code,
                                                 kernels::PackedWeight packed,
                                                 at::ScalarType dtype) {
  // A tensor with the weight's shape but without its memory.
  const at::Tensor outline =
      at::empty({1}, packed.parts.at(0).options().dtype(dtype)).expand(packed.shape);
  auto parameter = std::make_shared<base::Parameter>(std::move(name), outline, /*trainable=*/false);
  parameter->MoveWeight(std::make_shared<PackedHome>(std::move(code), std::move(packed)));
  return parameter;
}

}  // namespace moonring::comm
