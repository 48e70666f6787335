#include "attention/strategy/head_exchange.h"

#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "base/status/torch_status.h"

namespace moonring::attention {
namespace {

at::Tensor Heads(const at::Tensor& rows, const HeadRange& range) {
  return rows.narrow(1, range.begin, range.heads());
}

std::vector<int64_t> QueryElementsOf(const std::vector<RankHeads>& split, int64_t head_dim) {
  std::vector<int64_t> elements;
  for (const RankHeads& rank : split) elements.push_back(rank.queries.heads() * head_dim);
  return elements;
}

std::vector<int64_t> PackedElementsOf(const std::vector<RankHeads>& split, const HeadDims& dims) {
  std::vector<int64_t> elements;
  for (const RankHeads& rank : split) elements.push_back(rank.packed(dims));
  return elements;
}

// A view of the elements [first, first + heads D) of each row as heads: [T, E] -> [T, heads, D].
at::Tensor HeadsAt(const at::Tensor& rows_TE, int64_t first, int64_t heads, int64_t head_dim) {
  return rows_TE.narrow(1, first, heads * head_dim).unflatten(1, {heads, head_dim});
}

}  // namespace

QueryKeyValue Unpacked(const at::Tensor& packed_TE, const RankHeads& rank, const HeadDims& dims) {
  const int64_t q = rank.queries.heads(), kv = rank.kv.heads(), k_at = q * dims.key,
                v_at = k_at + kv * dims.key;
  return {HeadsAt(packed_TE, 0, q, dims.key), HeadsAt(packed_TE, k_at, kv, dims.key),
          HeadsAt(packed_TE, v_at, kv, dims.value)};
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
                                const std::vector<int64_t>& elements_of) const {
  const at::TensorOptions options = parts[own_][0].options();
  const int64_t local = tokens_[own_];
  const auto fill = [](const at::Tensor& rows_TE, const std::vector<at::Tensor>& pieces) {
    int64_t at = 0;
    for (const at::Tensor& piece : pieces) {
      HeadsAt(rows_TE, at, piece.size(1), piece.size(2)).copy_(piece);
      at += piece.size(1) * piece.size(2);
    }
  };
  const at::Tensor gathered =
      at::empty({first_row_.back() + tokens_.back(), elements_of[own_]}, options);
  std::vector<comm::Communicator::Message> send, receive;
  for (int s = 1; s < ranks(); ++s) {  // the next rank first, so that not all send to one rank at a
                                       // time
    const int to = (own_ + s) % ranks(), from = (own_ + ranks() - s) % ranks();
    const at::Tensor packed = at::empty({local, elements_of[to]}, options);
    fill(packed, parts[to]);
    send.push_back({packed, peers_[to]});
    receive.push_back({gathered.narrow(0, first_row_[from], tokens_[from]), peers_[from]});
  }
  auto transfer = base::ValueOrThrow(group_->Exchange(std::move(send), std::move(receive)));
  fill(gathered.narrow(0, first_row_[own_], local), parts[own_]);
  base::ThrowIfError(transfer.Wait());
  return gathered;
}

std::vector<at::Tensor> HeadExchange::Scatter(const at::Tensor& rows_TE,
                                              const std::vector<int64_t>& elements_of) const {
  std::vector<at::Tensor> parts;
  for (int p = 0; p < ranks(); ++p) {
    parts.push_back(p == own_ ? rows_TE.narrow(0, first_row_[own_], tokens_[own_])
                              : at::empty({tokens_[own_], elements_of[p]}, rows_TE.options()));
  }
  std::vector<comm::Communicator::Message> send, receive;
  for (int s = 1; s < ranks(); ++s) {
    const int to = (own_ + s) % ranks(), from = (own_ + ranks() - s) % ranks();
    send.push_back({rows_TE.narrow(0, first_row_[to], tokens_[to]), peers_[to]});
    receive.push_back({parts[from], peers_[from]});
  }
  auto transfer = base::ValueOrThrow(group_->Exchange(std::move(send), std::move(receive)));
  base::ThrowIfError(transfer.Wait());
  return parts;
}

at::Tensor HeadExchange::ToHeads(const QueryKeyValue& local,
                                 const std::vector<RankHeads>& split) const {
  std::vector<std::vector<at::Tensor>> parts;
  for (const RankHeads& rank : split)
    parts.push_back({Heads(local.q_THD, rank.queries), Heads(local.k_SKD, rank.kv),
                     Heads(local.v_SKD, rank.kv)});
  return Gather(parts, PackedElementsOf(split, {local.k_SKD.size(2), local.v_SKD.size(2)}));
}

at::Tensor HeadExchange::ToHeads(const at::Tensor& local_THD,
                                 const std::vector<RankHeads>& split) const {
  const int64_t head_dim = local_THD.size(2);
  std::vector<std::vector<at::Tensor>> parts;
  for (const RankHeads& rank : split) parts.push_back({Heads(local_THD, rank.queries)});
  return HeadsAt(Gather(parts, QueryElementsOf(split, head_dim)), 0, split[own_].queries.heads(),
                 head_dim);
}

at::Tensor HeadExchange::ToTokens(const at::Tensor& rows_THD,
                                  const std::vector<RankHeads>& split) const {
  const int64_t head_dim = rows_THD.size(2);
  const at::Tensor rows_TE = rows_THD.contiguous().flatten(1);
  return at::cat(Scatter(rows_TE, QueryElementsOf(split, head_dim)), 1)
      .unflatten(1, {split.back().queries.end, head_dim});
}

QueryKeyValue HeadExchange::PackedToTokens(const at::Tensor& packed_TE,
                                           const std::vector<RankHeads>& split,
                                           const HeadDims& dims) const {
  const std::vector<at::Tensor> parts =
      Scatter(packed_TE.contiguous(), PackedElementsOf(split, dims));
  const auto zeros = [&](int64_t head_dim) {
    return at::zeros({tokens_[own_], split.back().kv.end, head_dim}, packed_TE.options());
  };
  const at::Tensor dk = zeros(dims.key), dv = zeros(dims.value);
  std::vector<at::Tensor> dq;
  for (int p = 0; p < ranks(); ++p) {
    const QueryKeyValue part = Unpacked(parts[p], split[p], dims);
    dq.push_back(part.q_THD);
    Heads(dk, split[p].kv).add_(part.k_SKD);
    Heads(dv, split[p].kv).add_(part.v_SKD);
  }
  return {at::cat(dq, 1), dk, dv};
}

}  // namespace moonring::attention
