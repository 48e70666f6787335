#include "attention/head_exchange.h"

#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>

#include "comm/status/torch_status.h"

namespace moonring::attention {
namespace {

at::Tensor Heads(const at::Tensor& rows, int64_t first, int64_t heads) {
  return rows.narrow(1, first, heads);
}
at::Tensor Heads(const at::Tensor& rows, const HeadRange& range) {
  return rows.narrow(1, range.begin, range.heads());
}

std::vector<int64_t> QueryHeadsOf(const std::vector<RankHeads>& split) {
  std::vector<int64_t> heads;
  for (const RankHeads& rank : split) heads.push_back(rank.queries.heads());
  return heads;
}

std::vector<int64_t> PackedHeadsOf(const std::vector<RankHeads>& split) {
  std::vector<int64_t> heads;
  for (const RankHeads& rank : split) heads.push_back(rank.packed());
  return heads;
}

}  // namespace

QueryKeyValue Unpacked(const at::Tensor& packed_THD, const RankHeads& rank) {
  const int64_t q = rank.queries.heads(), kv = rank.kv.heads();
  return {Heads(packed_THD, 0, q), Heads(packed_THD, q, kv), Heads(packed_THD, q + kv, kv)};
}

HeadExchange::HeadExchange(const comm::Layout& layout, int rank,
                           std::shared_ptr<comm::Communicator> group)
    : group_(std::move(group)), own_(layout.division().HeadOf(rank)) {
  const comm::Division& division = layout.division();
  int64_t row = 0;
  for (int head = 0; head < division.heads; ++head) {
    peers_.push_back(division.Rank(division.ContextOf(rank), head));
    tokens_.push_back(layout.local_tokens(peers_.back()));
    first_row_.push_back(row);
    row += tokens_.back();
  }
}

at::Tensor HeadExchange::Gather(const std::vector<std::vector<at::Tensor>>& parts,
                                const std::vector<int64_t>& heads_of) const {
  const at::Tensor& like = parts[own_][0];
  const int64_t local = tokens_[own_], head_dim = like.size(2);
  const auto fill = [](const at::Tensor& rows, const std::vector<at::Tensor>& pieces) {
    int64_t head = 0;
    for (const at::Tensor& piece : pieces) {
      Heads(rows, head, piece.size(1)).copy_(piece);
      head += piece.size(1);
    }
  };
  const at::Tensor gathered =
      at::empty({first_row_.back() + tokens_.back(), heads_of[own_], head_dim}, like.options());
  std::vector<comm::Communicator::Message> send, receive;
  for (int s = 1; s < ranks(); ++s) {  // to the next first, so that not all send to one at a time
    const int to = (own_ + s) % ranks(), from = (own_ + ranks() - s) % ranks();
    const at::Tensor packed = at::empty({local, heads_of[to], head_dim}, like.options());
    fill(packed, parts[to]);
    send.push_back({packed, peers_[to]});
    receive.push_back({gathered.narrow(0, first_row_[from], tokens_[from]), peers_[from]});
  }
  auto transfer = comm::ValueOrThrow(group_->Exchange(std::move(send), std::move(receive)));
  fill(gathered.narrow(0, first_row_[own_], local), parts[own_]);
  comm::ThrowIfError(transfer.Wait());
  return gathered;
}

std::vector<at::Tensor> HeadExchange::Scatter(const at::Tensor& rows_THD,
                                              const std::vector<int64_t>& heads_of) const {
  const at::Tensor rows = rows_THD.contiguous();
  std::vector<at::Tensor> parts;
  for (int p = 0; p < ranks(); ++p) {
    parts.push_back(p == own_
                        ? rows.narrow(0, first_row_[own_], tokens_[own_])
                        : at::empty({tokens_[own_], heads_of[p], rows.size(2)}, rows.options()));
  }
  std::vector<comm::Communicator::Message> send, receive;
  for (int s = 1; s < ranks(); ++s) {
    const int to = (own_ + s) % ranks(), from = (own_ + ranks() - s) % ranks();
    send.push_back({rows.narrow(0, first_row_[to], tokens_[to]), peers_[to]});
    receive.push_back({parts[from], peers_[from]});
  }
  auto transfer = comm::ValueOrThrow(group_->Exchange(std::move(send), std::move(receive)));
  comm::ThrowIfError(transfer.Wait());
  return parts;
}

at::Tensor HeadExchange::ToHeads(const QueryKeyValue& local,
                                 const std::vector<RankHeads>& split) const {
  std::vector<std::vector<at::Tensor>> parts;
  for (const RankHeads& rank : split)
    parts.push_back({Heads(local.q_THD, rank.queries), Heads(local.k_SKD, rank.kv),
                     Heads(local.v_SKD, rank.kv)});
  return Gather(parts, PackedHeadsOf(split));
}

at::Tensor HeadExchange::ToHeads(const at::Tensor& local_THD,
                                 const std::vector<RankHeads>& split) const {
  std::vector<std::vector<at::Tensor>> parts;
  for (const RankHeads& rank : split) parts.push_back({Heads(local_THD, rank.queries)});
  return Gather(parts, QueryHeadsOf(split));
}

at::Tensor HeadExchange::ToTokens(const at::Tensor& rows_THD,
                                  const std::vector<RankHeads>& split) const {
  return at::cat(Scatter(rows_THD, QueryHeadsOf(split)), 1);
}

QueryKeyValue HeadExchange::PackedToTokens(const at::Tensor& packed_THD,
                                           const std::vector<RankHeads>& split) const {
  const std::vector<at::Tensor> parts = Scatter(packed_THD, PackedHeadsOf(split));
  const int64_t kv_heads = split.back().kv.end;
  const at::Tensor dk = at::zeros({tokens_[own_], kv_heads, packed_THD.size(2)},
                                  packed_THD.options()),
                   dv = at::zeros_like(dk);
  std::vector<at::Tensor> dq;
  for (int p = 0; p < ranks(); ++p) {
    const QueryKeyValue part = Unpacked(parts[p], split[p]);
    dq.push_back(part.q_THD);
    Heads(dk, split[p].kv).add_(part.k_SKD);
    Heads(dv, split[p].kv).add_(part.v_SKD);
  }
  return {at::cat(dq, 1), dk, dv};
}

}  // namespace moonring::attention
