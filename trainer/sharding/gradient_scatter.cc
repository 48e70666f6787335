#include "trainer/sharding/gradient_scatter.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "base/memory/memory_account.h"
#include "base/status/status_macros.h"
#include "base/trace/recorder.h"
#include "trainer/sharding/zero_cost.h"

namespace moonring::trainer {
namespace {

constexpr base::SpanKind kSend = {.name = "scatter gradients", .category = "gradients"};
constexpr base::SpanKind kArrive = {.name = "add gradients", .category = "gradients"};

}  // namespace

int64_t GradientScatter::Piece::numel(int rank) const {
  return std::clamp(of->parts[rank], begin, end) - begin;
}

absl::Status GradientScatter::Add(std::shared_ptr<base::Parameter> shard, at::Tensor gradient,
                                  HostSum* sum) {
  const at::ScalarType dtype = shard->gradient_dtype();
  const int64_t bytes = shard->numel() * static_cast<int64_t>(c10::elementSize(dtype));
  if (!waiting_.empty() && waiting_.front().shard->gradient_dtype() != dtype)
    RETURN_IF_ERROR(SendWaiting());
  std::vector<int64_t> parts = PartsOf(shard->numel(), group_->size());
  waiting_.push_back({std::move(shard), sum,
                      gradient.defined() ? gradient.view({-1}).to(dtype) : at::Tensor(),
                      std::move(parts)});
  waiting_bytes_ += bytes;
  return waiting_bytes_ >= bucket_bytes_ ? SendWaiting() : absl::OkStatus();
}

absl::Status GradientScatter::Flush() {
  RETURN_IF_ERROR(SendWaiting());
  return Arrive();
}

absl::Status GradientScatter::SendWaiting() {
  if (waiting_.empty()) return absl::OkStatus();
  const std::vector<Waiting> waiting = std::exchange(waiting_, {});
  waiting_bytes_ = 0;
  const int ranks = group_->size();
  const int64_t capacity = std::max<int64_t>(
      ranks, bucket_bytes_ /
                 static_cast<int64_t>(c10::elementSize(waiting.front().shard->gradient_dtype())));
  std::vector<Piece> bucket;
  int64_t filled = 0;
  for (const Waiting& each : waiting) {
    const int64_t longest = each.parts.front();
    for (int64_t begin = 0; begin < longest;) {
      const int64_t end =
          std::min(longest, begin + std::max<int64_t>(1, (capacity - filled) / ranks));
      bucket.push_back({&each, begin, end});
      filled += (end - begin) * ranks;
      begin = end;
      if (filled + ranks <= capacity) continue;
      RETURN_IF_ERROR(Send(bucket), "trainer.gradients");
      bucket.clear();
      filled = 0;
    }
  }
  return bucket.empty() ? absl::OkStatus() : Send(bucket);
}

absl::Status GradientScatter::Send(const std::vector<Piece>& pieces) {
  RETURN_IF_ERROR(Arrive(), "trainer.gradients");
  const base::TraceSpan span(kSend);
  at::NoGradGuard no_grad;
  const base::MemoryScope memory(base::MemoryPart::kCommunication);
  const int ranks = group_->size();
  std::vector<int64_t> rows(ranks);
  for (int r = 0; r < ranks; ++r) {
    for (const Piece& piece : pieces) rows[r] += piece.numel(r);
  }
  const at::TensorOptions options =
      at::TensorOptions(device_).dtype(pieces.front().of->shard->gradient_dtype());
  const at::Tensor bucket =
      at::empty({std::accumulate(rows.begin(), rows.end(), int64_t{0})}, options);
  int64_t at = 0;
  for (int r = 0; r < ranks; ++r) {
    for (const Piece& piece : pieces) {
      at::Tensor place = bucket.narrow(0, at, piece.numel(r));
      at += piece.numel(r);
      const int64_t part = PartBegin(piece.of->parts, r);
      if (piece.of->flat.defined()) {
        place.copy_(piece.of->flat.narrow(0, part + std::min(piece.begin, piece.of->parts[r]),
                                          piece.numel(r)));
      } else {
        place.zero_();
      }
    }
  }
  std::vector<Arriving> parts;
  for (const Piece& piece : pieces)
    parts.push_back({piece.of->shard, piece.of->sum, piece.begin, piece.numel(group_->rank())});
  ASSIGN_OR_RETURN(comm::Communicator::Reduction reduction,
                   group_->StartReduceScatterSum(bucket, rows));
  travelling_.emplace(Travelling{std::move(reduction), std::move(parts)});
  return absl::OkStatus();
}

absl::Status GradientScatter::Arrive() {
  if (!travelling_.has_value()) return absl::OkStatus();
  const base::TraceSpan span(kArrive);
  at::NoGradGuard no_grad;
  Travelling travelled = *std::exchange(travelling_, std::nullopt);
  RETURN_IF_ERROR(travelled.reduction.transfer.Wait());
  int64_t at = 0;
  for (const Arriving& each : travelled.parts) {
    const at::Tensor part = travelled.reduction.sum.narrow(0, at, each.count);
    at += each.count;
    if (each.sum == nullptr) {
      at::Tensor gradient = each.shard->GradientOrZeros();  // also for an empty shard
      if (each.count > 0) gradient.narrow(0, each.begin, each.count).add_(part);
    } else if (each.count > 0) {
      sums_->Add(*each.sum, each.begin, part);
    }
  }
  return absl::OkStatus();
}

}  // namespace moonring::trainer
