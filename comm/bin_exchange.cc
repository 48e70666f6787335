#include "comm/bin_exchange.h"

#include <numeric>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/Exception.h>

#include "base/autograd/custom_function.h"
#include "base/status/torch_status.h"

namespace moonring::comm {
namespace {

at::Tensor Go(const at::Tensor& rows, const BinExchange::Meeting& meeting) {
  return base::ValueOrThrow(meeting.group->AllToAll(rows, meeting.send_rows, meeting.receive_rows))
      .index_select(0, meeting.arrived_M);
}

at::Tensor Return(const at::Tensor& rows, const BinExchange::Meeting& meeting) {
  return base::ValueOrThrow(meeting.group->AllToAll(rows.index_select(0, meeting.leaving_M),
                                                    meeting.receive_rows, meeting.send_rows));
}

void CheckRows(const char* what, const at::Tensor& rows, const std::vector<int64_t>& of_ranks) {
  const int64_t wanted = std::accumulate(of_ranks.begin(), of_ranks.end(), int64_t{0});
  TORCH_CHECK(rows.dim() >= 1 && rows.size(0) == wanted, "bin exchange: ", what, ", rows of shape ",
              rows.sizes(), ", expected ", wanted, " rows");
}

}  // namespace

std::vector<int64_t> BinParts(int64_t bins, int ranks) {
  std::vector<int64_t> border = {0};
  for (int r = 0; r < ranks; ++r)
    border.push_back(border.back() + bins / ranks + (r < bins % ranks ? 1 : 0));
  return border;
}

BinExchange::BinExchange(std::shared_ptr<Communicator> group, std::vector<int64_t> border)
    : group_(std::move(group)), border_(std::move(border)) {
  TORCH_CHECK(static_cast<int>(border_.size()) == group_->size() + 1 && border_[0] == 0,
              "bin exchange: ", border_.size(), " borders for ", group_->size(),
              " ranks, expected one more than ranks, from 0 on");
  for (size_t r = 1; r < border_.size(); ++r)
    TORCH_CHECK(border_[r] >= border_[r - 1], "bin exchange: border ", border_[r], " after ",
                border_[r - 1]);
}

BinExchange::Meeting BinExchange::Meet(const std::vector<int64_t>& begin,
                                       const at::Device& device) const {
  TORCH_CHECK(static_cast<int64_t>(begin.size()) == bins() + 1, "bin exchange: rows of ",
              static_cast<int64_t>(begin.size()) - 1, " bins, expected ", bins());
  Meeting meeting;
  meeting.group = group_;
  if (alone()) {
    meeting.begin = begin;
    meeting.send_rows = meeting.receive_rows = {begin.back()};
    return meeting;
  }
  const int ranks = group_->size();
  std::vector<int64_t> bins_of(ranks);
  for (int r = 0; r < ranks; ++r) {
    bins_of[r] = border_[r + 1] - border_[r];
    meeting.send_rows.push_back(begin[border_[r + 1]] - begin[border_[r]]);
  }
  const at::Tensor mine_E = at::empty({bins()}, at::kLong);
  for (int64_t e = 0; e < bins(); ++e)
    mine_E.mutable_data_ptr<int64_t>()[e] = begin[e + 1] - begin[e];
  const at::Tensor came =
      base::ValueOrThrow(group_->AllToAll(mine_E, bins_of, std::vector<int64_t>(ranks, count())));
  const int64_t* rows_of = came.const_data_ptr<int64_t>();  // [P, bins of this rank]
  std::vector<int64_t> next;  // for each rank, the first row received from it that has no index yet
  int64_t total = 0;
  for (int r = 0; r < ranks; ++r) {
    next.push_back(total);
    meeting.receive_rows.push_back(
        std::accumulate(rows_of + r * count(), rows_of + (r + 1) * count(), int64_t{0}));
    total += meeting.receive_rows.back();
  }
  const at::Tensor arrived_M = at::empty({total}, at::kLong), leaving_M = at::empty_like(arrived_M);
  int64_t* const arrived = arrived_M.mutable_data_ptr<int64_t>();
  int64_t* const leaving = leaving_M.mutable_data_ptr<int64_t>();
  meeting.begin = {0};
  int64_t row = 0;
  for (int64_t bin = 0; bin < count(); ++bin) {
    for (int r = 0; r < ranks; ++r) {
      for (int64_t i = 0; i < rows_of[r * count() + bin]; ++i) {
        arrived[row] = next[r];
        leaving[next[r]++] = row++;
      }
    }
    meeting.begin.push_back(row);
  }
  meeting.arrived_M = arrived_M.to(device);
  meeting.leaving_M = leaving_M.to(device);
  return meeting;
}

at::Tensor ToBins(const at::Tensor& rows_ND, const BinExchange::Meeting& meeting) {
  CheckRows("to bins", rows_ND, meeting.send_rows);
  if (meeting.group->size() == 1) return rows_ND;
  return base::ApplyToOne(
      {.name = "ToBins",
       .forward = [&](base::Tensors*) -> base::Tensors { return {Go(rows_ND, meeting)}; },
       .backward = [meeting](base::BackwardCall& call) -> base::Tensors {
         return {Return(call.gradients[0], meeting)};
       }},
      {rows_ND});
}

at::Tensor FromBins(const at::Tensor& rows_MD, const BinExchange::Meeting& meeting) {
  CheckRows("from bins", rows_MD, meeting.receive_rows);
  if (meeting.group->size() == 1) return rows_MD;
  return base::ApplyToOne(
      {.name = "FromBins",
       .forward = [&](base::Tensors*) -> base::Tensors { return {Return(rows_MD, meeting)}; },
       .backward = [meeting](base::BackwardCall& call) -> base::Tensors {
         return {Go(call.gradients[0], meeting)};
       }},
      {rows_MD});
}

BinTraffic CountBinTraffic(const std::vector<std::vector<int64_t>>& rows_PE,
                           const std::vector<int64_t>& border, int rank, int64_t row_bytes,
                           bool meets) {
  const int ranks = static_cast<int>(rows_PE.size());
  BinTraffic traffic;
  if (ranks == 1) return traffic;
  const int64_t own = border[rank + 1] - border[rank];
  if (meets) traffic = {ranks - 1, (border.back() - own) * static_cast<int64_t>(sizeof(int64_t))};
  const auto rows = [&](int from, int to) {
    return std::accumulate(rows_PE[from].begin() + border[to],
                           rows_PE[from].begin() + border[to + 1], int64_t{0});
  };
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer != rank) traffic.bytes += (rows(rank, peer) + rows(peer, rank)) * row_bytes;
  }
  traffic.steps += 2 * (ranks - 1);
  return traffic;
}

}  // namespace moonring::comm
