#include "comm/autograd_collectives.h"

#include <utility>

#include <ATen/ops/empty.h>

#include "base/autograd/custom_function.h"
#include "base/status/torch_status.h"

namespace moonring::comm {
namespace {

using base::BackwardCall;
using base::Tensors;

// The marks of nodes (CustomFunction::mark).
constexpr KindChange kSum = {Kind::kSharded, Kind::kReplicated},
                     kSpread = {Kind::kReplicated, Kind::kSharded},
                     kExchange = {Kind::kSharded, Kind::kSharded};

at::Tensor SummedOverRanks(const at::Tensor& t, Communicator& group) {
  at::Tensor sum = t.detach().clone(at::MemoryFormat::Contiguous);
  base::ThrowIfError(group.AllReduceSum(sum));
  return sum;
}

at::Tensor Gather(const at::Tensor& rows, const std::vector<int64_t>& rows_of_rank,
                  Communicator& group) {
  std::vector<int64_t> shape = rows.sizes().vec();
  shape[0] = 0;
  int64_t begin = 0;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank == group.rank()) begin = shape[0];
    shape[0] += rows_of_rank[rank];
  }
  at::Tensor whole = at::empty(shape, rows.options());
  whole.narrow(0, begin, rows.size(0)).copy_(rows.detach());
  Communicator::Transfer transfer =
      base::ValueOrThrow(group.StartAllGather({{whole, rows_of_rank}}));
  base::ThrowIfError(transfer.Wait());
  return whole;
}

at::Tensor ReduceScatter(const at::Tensor& rows, const std::vector<int64_t>& rows_of_rank,
                         Communicator& group) {
  return base::ValueOrThrow(group.ReduceScatterSum(rows.detach().contiguous(), rows_of_rank));
}

void CheckCounts(const char* name, const at::Tensor& rows, const std::vector<int64_t>& rows_of_rank,
                 int64_t expected, const Communicator& group) {
  TORCH_CHECK_VALUE(static_cast<int>(rows_of_rank.size()) == group.size(), name, ": ",
                    rows_of_rank.size(), " counts of rows for ", group.size(), " ranks");
  TORCH_CHECK_VALUE(rows.dim() >= 1 && rows.size(0) == expected, name, ": expected ", expected,
                    " rows, got a tensor of shape ", rows.sizes());
}

}  // namespace

const KindChange* KindChangeOf(const torch::autograd::Node& node) {
  const void* const mark = base::MarkOf(node);
  for (const KindChange* change : {&kSum, &kSpread, &kExchange}) {
    if (mark == change) return change;
  }
  return nullptr;
}

at::Tensor AllReduceSumIdentityBackward(const at::Tensor& t, std::shared_ptr<Communicator> group) {
  return base::ApplyToOne(
      {.name = "AllReduceSumIdentityBackward",
       .forward = [&](Tensors*) -> Tensors { return {SummedOverRanks(t, *group)}; },
       .backward = [](BackwardCall& call) -> Tensors { return {call.gradients[0]}; },
       .mark = &kSum},
      {t});
}

at::Tensor Spread(const at::Tensor& t, std::shared_ptr<Communicator> group) {
  return base::ApplyToOne({.name = "Spread",
                           .forward = [&](Tensors*) -> Tensors { return {t.detach().clone()}; },
                           .backward = [group](BackwardCall& call) -> Tensors {
                             return {SummedOverRanks(call.gradients[0], *group)};
                           },
                           .mark = &kSpread},
                          {t});
}

at::Tensor GatherRows(const at::Tensor& rows, std::vector<int64_t> rows_of_rank,
                      std::shared_ptr<Communicator> group) {
  const int64_t own = group->rank() < static_cast<int>(rows_of_rank.size())
                          ? rows_of_rank[group->rank()]
                          : int64_t{0};
  CheckCounts("gather", rows, rows_of_rank, own, *group);
  if (group->size() == 1) return rows;
  return base::ApplyToOne(
      {.name = "GatherRows",
       .forward = [&](Tensors*) -> Tensors { return {Gather(rows, rows_of_rank, *group)}; },
       .backward = [rows_of_rank, group](BackwardCall& call) -> Tensors {
         return {ReduceScatter(call.gradients[0], rows_of_rank, *group)};
       },
       .mark = &kExchange},
      {rows});
}

at::Tensor ReduceScatterRows(const at::Tensor& rows, std::vector<int64_t> rows_of_rank,
                             std::shared_ptr<Communicator> group) {
  int64_t total = 0;
  for (const int64_t count : rows_of_rank) total += count;
  CheckCounts("reduce_scatter", rows, rows_of_rank, total, *group);
  if (group->size() == 1) return rows;
  return base::ApplyToOne(
      {.name = "ReduceScatterRows",
       .forward = [&](Tensors*) -> Tensors { return {ReduceScatter(rows, rows_of_rank, *group)}; },
       .backward = [rows_of_rank, group](BackwardCall& call) -> Tensors {
         return {Gather(call.gradients[0], rows_of_rank, *group)};
       },
       .mark = &kExchange},
      {rows});
}

at::Tensor AllToAllRows(const at::Tensor& rows, std::vector<int64_t> send_rows,
                        std::vector<int64_t> receive_rows, std::shared_ptr<Communicator> group) {
  if (group->size() == 1) return rows;
  return base::ApplyToOne(
      {.name = "AllToAllRows",
       .forward = [&](Tensors*) -> Tensors {
         return {base::ValueOrThrow(group->AllToAll(rows, send_rows, receive_rows))};
       },
       .backward = [send_rows, receive_rows, group](BackwardCall& call) -> Tensors {
         return {base::ValueOrThrow(group->AllToAll(call.gradients[0], receive_rows, send_rows))};
       },
       .mark = &kExchange},
      {rows});
}

}  // namespace moonring::comm
