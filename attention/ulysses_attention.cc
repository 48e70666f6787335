#include "attention/ulysses_attention.h"

#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"
#include "attention/attention_function.h"
#include "attention/head_split.h"
#include "attention/softmax_merge.h"
#include "attention/tile_plan.h"
#include "attention/tile_runner.h"
#include "comm/layout.h"
#include "comm/torch_status.h"

namespace moonring::attention {
namespace {

at::Tensor Heads(const at::Tensor& rows, int64_t first, int64_t heads) { return rows.narrow(1, first, heads); }
at::Tensor Heads(const at::Tensor& rows, const HeadRange& range) { return rows.narrow(1, range.begin, range.heads()); }

// What a rank holds of the heads between the two all-to-alls: [T, q heads | k heads | v heads, D] in one buffer.
QueryKeyValue Unpacked(const at::Tensor& packed_THD, const RankHeads& rank) {
  const int64_t q = rank.queries.heads(), kv = rank.kv.heads();
  return {Heads(packed_THD, 0, q), Heads(packed_THD, q, kv), Heads(packed_THD, q + kv, kv)};
}

// The two exchanges and their inverses. Rows that travel are single heads of single tokens, [n, D]; what one rank gets from
// another is [tokens, heads, D] in one piece. Received parts lie by source, so by source's tokens: `order` puts them in the
// stream's order where these differ.
class HeadExchange {
 public:
  HeadExchange(const comm::Layout& layout, std::shared_ptr<comm::Communicator> group) : group_(std::move(group)), tokens_(layout.tokens()) {
    std::vector<at::Tensor> indices;
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      tokens_of_.push_back(layout.local_tokens(rank));
      indices.push_back(layout.Index(rank));
    }
    const at::Tensor stream_row = at::cat(indices);  // of each received row
    if (!stream_row.equal(at::arange(tokens_, at::kLong))) {
      to_received_ = stream_row;
      to_stream_ = at::argsort(stream_row);
    }
  }

  int rank() const { return group_->rank(); }
  int ranks() const { return group_->size(); }

  // parts[p] [T_local, heads_of[p], D], what rank p gets -> [T, heads_of[rank], D] in the stream's order.
  at::Tensor ToHeads(const std::vector<std::vector<at::Tensor>>& parts, const std::vector<int64_t>& heads_of, int64_t head_dim,
                     const at::TensorOptions& options) const {
    const int64_t local = tokens_of_[rank()], heads = heads_of[rank()];
    std::vector<int64_t> send, receive;
    int64_t rows = 0;
    for (int p = 0; p < ranks(); ++p) {
      send.push_back(local * heads_of[p]);
      receive.push_back(tokens_of_[p] * heads);
      rows += send.back();
    }
    at::Tensor packed = at::empty({rows, head_dim}, options);
    for (int64_t p = 0, row = 0; p < ranks(); row += send[p++]) {
      at::Tensor part = packed.narrow(0, row, send[p]).view({local, heads_of[p], head_dim});
      int64_t head = 0;
      for (const at::Tensor& piece : parts[p]) {
        Heads(part, head, piece.size(1)).copy_(piece);
        head += piece.size(1);
      }
    }
    const at::Tensor received = comm::ValueOrThrow(group_->AllToAll(packed, send, receive)).view({tokens_, heads, head_dim});
    return to_stream_.defined() ? received.index_select(0, to_stream_) : received;
  }

  // rows [T, heads_of[rank], D] -> what each rank computed for the local tokens: parts[p] [T_local, heads_of[p], D].
  std::vector<at::Tensor> ToTokens(const at::Tensor& rows_THD, const std::vector<int64_t>& heads_of) const {
    const int64_t local = tokens_of_[rank()], heads = heads_of[rank()], head_dim = rows_THD.size(2);
    std::vector<int64_t> send, receive;
    for (int p = 0; p < ranks(); ++p) {
      send.push_back(tokens_of_[p] * heads);
      receive.push_back(local * heads_of[p]);
    }
    const at::Tensor by_rank = (to_received_.defined() ? rows_THD.index_select(0, to_received_) : rows_THD.contiguous());
    const at::Tensor received = comm::ValueOrThrow(group_->AllToAll(by_rank.view({tokens_ * heads, head_dim}), send, receive));
    std::vector<at::Tensor> parts;
    for (int64_t p = 0, row = 0; p < ranks(); row += receive[p++]) {
      parts.push_back(received.narrow(0, row, receive[p]).view({local, heads_of[p], head_dim}));
    }
    return parts;
  }

 private:
  std::shared_ptr<comm::Communicator> group_;
  int64_t tokens_;
  std::vector<int64_t> tokens_of_;
  at::Tensor to_received_, to_stream_;  // undefined where ranks own the stream in order
};

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

class UlyssesOperator final : public AttentionOperator {
 public:
  UlyssesOperator(const comm::Layout& layout, std::shared_ptr<comm::Communicator> group, std::shared_ptr<const BlockAttention> block)
      : block_(std::move(block)), plan_(PlanWholeDocuments(layout.lengths())), exchange_(layout, std::move(group)) {}

  Result Forward(const AttentionCall& call, const QueryKeyValue& inputs) const override {
    const at::Tensor &q = inputs.q_THD, &k = inputs.k_SKD, &v = inputs.v_SKD;
    const int64_t head_dim = q.size(2);
    const std::vector<RankHeads> split = SplitHeads(call.heads, call.kv_heads, exchange_.ranks());
    std::vector<std::vector<at::Tensor>> parts;
    for (const RankHeads& rank : split) parts.push_back({Heads(q, rank.queries), Heads(k, rank.kv), Heads(v, rank.kv)});
    const at::Tensor packed = exchange_.ToHeads(parts, PackedHeadsOf(split), head_dim, q.options());

    const RankHeads& own = split[exchange_.rank()];
    const QueryKeyValue rows = ToAccumulateType(Unpacked(packed, own));
    const SoftmaxState state = SoftmaxState::Empty(rows.q_THD.size(0), own.queries.heads(), head_dim, rows.q_THD.options());
    Runner(own, call).Forward(plan_, rows, state);
    const PartialAttention whole = Finish(state);

    const std::vector<at::Tensor> returned = exchange_.ToTokens(whole.out_MHD.to(q.scalar_type()), QueryHeadsOf(split));
    return {at::cat(returned, 1), {packed, whole.out_MHD, whole.lse_MH}};
  }

  QueryKeyValue Backward(const AttentionCall& call, const at::Tensor& dout_THD, const std::vector<at::Tensor>& saved) const override {
    const at::Tensor &packed = saved[0], &out = saved[1], &lse = saved[2];
    const std::vector<RankHeads> split = SplitHeads(call.heads, call.kv_heads, exchange_.ranks());
    std::vector<std::vector<at::Tensor>> parts;
    for (const RankHeads& rank : split) parts.push_back({Heads(dout_THD, rank.queries)});
    const at::Tensor dout = exchange_.ToHeads(parts, QueryHeadsOf(split), packed.size(2), dout_THD.options());

    const RankHeads& own = split[exchange_.rank()];
    const QueryKeyValue rows = ToAccumulateType(Unpacked(packed, own));
    const at::Tensor sums = at::zeros(packed.sizes(), out.options());
    Runner(own, call).Backward(plan_, rows, {dout.to(out.scalar_type()), out, lse}, Unpacked(sums, own));

    // Sums that are not complete travel as sums; complete ones in the dtype that they will have.
    const at::Tensor travelling = SharesKvHeads(split) ? sums : sums.to(packed.scalar_type());
    const std::vector<at::Tensor> returned = exchange_.ToTokens(travelling, PackedHeadsOf(split));
    return Collect(returned, split, call.kv_heads, packed.scalar_type());
  }

 private:
  TileRunner Runner(const RankHeads& own, const AttentionCall& call) const { return {*block_, GroupHeads(own, call.heads / call.kv_heads), call.scale}; }

  // Gradients of the local tokens by rank -> of all heads: the adjoint of sending a kv head to several ranks is their sum.
  static QueryKeyValue Collect(const std::vector<at::Tensor>& returned, const std::vector<RankHeads>& split, int64_t kv_heads, at::ScalarType type) {
    const int64_t local = returned[0].size(0), head_dim = returned[0].size(2);
    const at::Tensor dk = at::zeros({local, kv_heads, head_dim}, returned[0].options()), dv = at::zeros_like(dk);
    std::vector<at::Tensor> dq;
    for (size_t p = 0; p < split.size(); ++p) {
      const QueryKeyValue part = Unpacked(returned[p], split[p]);
      dq.push_back(part.q_THD);
      Heads(dk, split[p].kv).add_(part.k_SKD);
      Heads(dv, split[p].kv).add_(part.v_SKD);
    }
    return {at::cat(dq, 1).to(type), dk.to(type), dv.to(type)};
  }

  std::shared_ptr<const BlockAttention> block_;
  TilePlan plan_;
  HeadExchange exchange_;
};

}  // namespace

comm::Ownership UlyssesAttention::ownership() const { return comm::Ownership::kContiguous; }

absl::StatusOr<std::unique_ptr<PlannedAttention>> UlyssesAttention::Plan(std::shared_ptr<const comm::Layout> layout) {
  if (layout->ranks() != group_->size()) {
    return absl::InvalidArgumentError(absl::StrCat("ulysses attention on ", group_->size(), " ranks got a layout of ", layout->ranks()));
  }
  return MakePlannedAttention(c10::make_intrusive<UlyssesOperator>(*layout, group_, block_), layout->local_tokens(group_->rank()));
}

AttentionCost UlyssesCost(const comm::Layout& layout, const AttentionShape& shape) {
  const std::vector<RankHeads> split = SplitHeads(shape.heads, shape.kv_heads, layout.ranks());
  const int64_t bytes_back = SharesKvHeads(split) ? shape.accumulate_bytes : shape.element_bytes;
  const double area = PlanWholeDocuments(layout.lengths()).area();
  AttentionCost cost(layout.ranks());
  for (int r = 0; r < layout.ranks(); ++r) {
    RankCost& rank = cost[r];
    rank.tile_area = area * static_cast<double>(split[r].queries.heads());
    rank.forward_steps = rank.backward_steps = 2 * (layout.ranks() - 1);
    for (int p = 0; p < layout.ranks(); ++p) {
      if (p == r) continue;
      // There: r's tokens of p's heads. Back: p's tokens of r's heads.
      const int64_t there = layout.local_tokens(r) * shape.head_dim, back = layout.local_tokens(p) * shape.head_dim;
      rank.forward_bytes += (there * split[p].packed() + back * split[r].queries.heads()) * shape.element_bytes;
      rank.backward_bytes += there * split[p].queries.heads() * shape.element_bytes + back * split[r].packed() * bytes_back;
    }
  }
  return cost;
}

}  // namespace moonring::attention
