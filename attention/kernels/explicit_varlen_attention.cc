#include "attention/kernels/explicit_varlen_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/zeros.h>

#include "attention/kernels/padded_rows.h"
#include "attention/kernels/softmax_merge.h"

namespace moonring::attention {
namespace {

constexpr int64_t kRound = 64;  // the side of a large tile's pieces is a multiple of this number

// Tiles, or pieces of one tile, that are computed at once. All have the same kind.
struct Batch {
  std::vector<RowRange> queries, keys;
  TileKind kind = TileKind::kFull;
};

// The batches of a call: several small tiles are one batch, a large tile is cut into pieces.
struct BatchPlan {
  std::vector<Batch> small;
  struct Large {
    RowRange queries;
    std::vector<Batch> pieces;
  };
  std::vector<Large> large;
};

RowRange RangeOf(const std::vector<int64_t>& offsets, size_t i) {
  return {offsets[i], offsets[i + 1]};
}

BatchPlan::Large Cut(const RowRange& queries, const RowRange& keys, TileKind kind, int64_t pairs) {
  const int64_t root = static_cast<int64_t>(std::sqrt(static_cast<double>(pairs)));
  const int64_t side = std::max(kRound, root / kRound * kRound);
  const int64_t query_step = std::min(side, queries.rows());
  const int64_t key_step = kind == TileKind::kFull
                               ? std::max(kRound, pairs / query_step)
                               : side;  // masked tiles are square, and so are their pieces
  BatchPlan::Large large{queries, {}};
  for (int64_t i = queries.begin; i < queries.end; i += query_step) {
    for (int64_t j = keys.begin; j < keys.end; j += key_step) {
      const int64_t row = i - queries.begin, key = j - keys.begin;
      if ((kind == TileKind::kCausal && key > row) || (kind == TileKind::kWindowEdge && key < row))
        continue;
      const RowRange some_queries = {i, std::min(i + query_step, queries.end)},
                     some_keys = {j, std::min(j + key_step, keys.end)};
      large.pieces.push_back({{some_queries}, {some_keys}, row == key ? kind : TileKind::kFull});
    }
  }
  return large;
}

// `pairs`: the maximal number of query-key pairs of a batch.
BatchPlan PlanOf(const VarlenTiles& tiles, int64_t pairs) {
  BatchPlan plan;
  std::vector<size_t> small;
  for (size_t i = 0; i + 1 < tiles.query_offsets.size(); ++i) {
    const RowRange queries = RangeOf(tiles.query_offsets, i), keys = RangeOf(tiles.key_offsets, i);
    if (queries.rows() * keys.rows() <= pairs) {
      small.push_back(i);
    } else {
      plan.large.push_back(Cut(queries, keys, tiles.kind, pairs));
    }
  }
  const auto rows_of = [&](size_t i) { return RangeOf(tiles.query_offsets, i).rows(); };
  const auto keys_of = [&](size_t i) { return RangeOf(tiles.key_offsets, i).rows(); };
  std::stable_sort(small.begin(), small.end(), [&](size_t a, size_t b) {
    return std::pair(rows_of(a), keys_of(a)) > std::pair(rows_of(b), keys_of(b));
  });
  int64_t fewest_keys = 0, most_keys = 0;
  for (const size_t i : small) {
    const int64_t fewest = std::min(fewest_keys, keys_of(i)),
                  most = std::max(most_keys, keys_of(i));
    const bool fits = !plan.small.empty() &&
                      2 * rows_of(i) >= plan.small.back().queries[0].rows() && 2 * fewest >= most &&
                      (static_cast<int64_t>(plan.small.back().queries.size()) + 1) *
                              plan.small.back().queries[0].rows() * most <=
                          pairs;
    if (!fits) plan.small.push_back({{}, {}, tiles.kind});
    fewest_keys = fits ? fewest : keys_of(i);
    most_keys = fits ? most : keys_of(i);
    plan.small.back().queries.push_back(RangeOf(tiles.query_offsets, i));
    plan.small.back().keys.push_back(RangeOf(tiles.key_offsets, i));
  }
  return plan;
}

// A batch with its rows: queries [B K, G m, .], keys [B K, n, .], where each of K kv heads has G
// query heads.
class Work {
 public:
  Work(const Batch& batch, const VarlenTiles& tiles)
      : kind_(batch.kind),
        score_(tiles.score),
        kv_heads_(tiles.k_NKD.size(1)),
        group_(tiles.q_MHD.size(1) / kv_heads_),
        queries_(batch.queries, tiles.q_MHD.device()),
        keys_(batch.keys, tiles.q_MHD.device()),
        q_(Queries(tiles.q_MHD)),
        k_(Keys(tiles.k_NKD)),
        v_(Keys(tiles.v_NKD)) {}

  // out [B, m, H, Dv] and lse [B, m, H].
  PartialAttention Forward() const {
    const double cap = score_.cap();
    at::Tensor scores = Bent();
    Hide(scores, /*absent_queries=*/false);
    const at::Tensor max = scores.amax({2}, /*keepdim=*/true).mul_(cap);
    const at::Tensor sum =
        at::add_out(scores, max.neg(), scores, cap).exp_().sum({2}, /*keepdim=*/true);
    const at::Tensor out = at::bmm(scores, v_).div_(sum);
    return {OfQueries(out), OfQueries(sum.log().add_(max)).squeeze(3)};
  }

  // dq [B, m, H, D], dk [B, n, K, D] and dv [B, n, K, Dv].
  TileGradients Backward(const at::Tensor& dout_MHD, const at::Tensor& delta_MH1,
                         const at::Tensor& minus_lse_MH1) const {
    const at::Tensor dout = Queries(dout_MHD), y = Bent();
    const at::Tensor p = at::add(Queries(minus_lse_MH1), y, score_.cap());
    Hide(p, /*absent_queries=*/true);
    p.exp_();
    const at::Tensor dv = at::bmm(p.transpose(1, 2), dout);
    at::Tensor dz = at::bmm(dout, v_.transpose(1, 2)).sub_(Queries(delta_MH1)).mul_(p);
    if (score_.softcap != 0.0) at::tanh_backward_out(dz, dz, y);  // dz (1 - y^2)
    const at::Tensor dq = at::bmm(dz, k_).mul_(score_.scale),
                     dk = at::bmm(dz.transpose(1, 2), q_).mul_(score_.scale);
    return {OfQueries(dq), OfKeys(dk), OfKeys(dv)};
  }

  const PaddedRows& queries() const { return queries_; }
  const PaddedRows& keys() const { return keys_; }

 private:
  at::Tensor Queries(const at::Tensor& rows_MHD) const {
    const at::Tensor all = queries_.Of(rows_MHD).unflatten(2, {kv_heads_, group_});
    return all.permute({0, 2, 3, 1, 4})
        .reshape({queries_.batch() * kv_heads_, group_ * queries_.longest(), rows_MHD.size(2)});
  }
  at::Tensor Keys(const at::Tensor& rows_NKD) const {
    return keys_.Of(rows_NKD).transpose(1, 2).reshape(
        {keys_.batch() * kv_heads_, keys_.longest(), rows_NKD.size(2)});
  }
  at::Tensor OfQueries(const at::Tensor& rows) const {
    const at::Tensor all =
        rows.unflatten(0, {queries_.batch(), kv_heads_}).unflatten(2, {group_, queries_.longest()});
    return all.permute({0, 3, 1, 2, 4}).flatten(2, 3);
  }
  at::Tensor OfKeys(const at::Tensor& rows) const {
    return rows.unflatten(0, {keys_.batch(), kv_heads_}).transpose(1, 2);
  }

  // Computes Y (ScoreFunction::cap).
  at::Tensor Bent() const {
    at::Tensor y = at::empty({q_.size(0), q_.size(1), k_.size(1)}, q_.options());
    y.baddbmm_(q_, k_.transpose(1, 2), /*beta=*/0, score_.scale / score_.cap());
    if (score_.softcap != 0.0) y.tanh_();
    return y;
  }

  // Sets masked scores to -inf. The forward treats a padding query like a real one, so that its
  // results are finite. The backward sets `absent_queries`: all scores of padding queries are
  // masked, so that these add nothing to the keys' gradients.
  void Hide(const at::Tensor& scores, bool absent_queries) const {
    const int64_t m = queries_.longest(), n = keys_.longest();
    const auto either = [](const at::Tensor& a, const at::Tensor& b) {
      return a.defined() && b.defined() ? a.logical_or(b) : a.defined() ? a : b;
    };
    const at::Tensor no_query = queries_.Absent(), no_key = keys_.Absent();
    at::Tensor hidden;  // broadcasts to [B, m, n]
    if (no_key.defined()) hidden = no_key.unsqueeze(1);
    if (no_query.defined()) {
      const at::Tensor rows = no_query.unsqueeze(2);
      hidden = absent_queries     ? either(hidden, rows)
               : hidden.defined() ? hidden.logical_and(rows.logical_not())
                                  : hidden;
    }
    if (kind_ != TileKind::kFull) {
      const at::Tensor all = at::ones({m, n}, scores.options().dtype(at::kBool));
      hidden =
          either(hidden, (kind_ == TileKind::kCausal ? all.triu(1) : all.tril(-1)).unsqueeze(0));
    }
    if (!hidden.defined()) return;
    const at::Tensor of_heads =
        scores.unflatten(0, {queries_.batch(), kv_heads_}).unflatten(2, {group_, m});
    of_heads.masked_fill_(hidden.unsqueeze(1).unsqueeze(1),
                          -std::numeric_limits<double>::infinity());
  }

  TileKind kind_;
  ScoreFunction score_;
  int64_t kv_heads_, group_;
  PaddedRows queries_, keys_;
  at::Tensor q_, k_, v_;
};

VarlenTiles InAccumulateType(const VarlenTiles& tiles) {
  VarlenTiles wide = tiles;
  const QueryKeyValue rows = ToAccumulateType({tiles.q_MHD, tiles.k_NKD, tiles.v_NKD});
  wide.q_MHD = rows.q_THD;
  wide.k_NKD = rows.k_SKD;
  wide.v_NKD = rows.v_SKD;
  return wide;
}

int64_t PairsOf(const VarlenTiles& tiles, int64_t score_bytes) {
  return std::max<int64_t>(1, score_bytes / (3 * tiles.q_MHD.size(1) *
                                             static_cast<int64_t>(tiles.q_MHD.element_size())));
}

}  // namespace

PartialAttention ExplicitVarlenAttention::RunForward(const VarlenTiles& given) const {
  const VarlenTiles tiles = InAccumulateType(given);
  const int64_t heads = tiles.q_MHD.size(1);
  const PartialAttention all{at::empty(OutShape(tiles.q_MHD, tiles.v_NKD), tiles.q_MHD.options()),
                             at::empty(tiles.q_MHD.sizes().slice(0, 2), tiles.q_MHD.options())};
  const BatchPlan plan = PlanOf(tiles, PairsOf(tiles, score_bytes_));
  for (const Batch& batch : plan.small) {
    const Work work(batch, tiles);
    const PartialAttention part = work.Forward();
    work.queries().Put(part.out_MHD, all.out_MHD);
    work.queries().Put(part.lse_MH, all.lse_MH);
  }
  for (const BatchPlan::Large& large : plan.large) {
    const SoftmaxState state = SoftmaxState::Empty(large.queries.rows(), heads, tiles.v_NKD.size(2),
                                                   tiles.q_MHD.options());
    for (const Batch& piece : large.pieces) {
      const RowRange& rows = piece.queries[0];
      SoftmaxState of_piece =
          state.Slice({rows.begin - large.queries.begin, rows.end - large.queries.begin}, 0, heads);
      const PartialAttention part = Work(piece, tiles).Forward();
      Merge({part.out_MHD.squeeze(0), part.lse_MH.squeeze(0)}, of_piece);
    }
    const PartialAttention done = Finish(state);
    RowsOfRange(all.out_MHD, large.queries).copy_(done.out_MHD);
    RowsOfRange(all.lse_MH, large.queries).copy_(done.lse_MH);
  }
  return all;
}

TileGradients ExplicitVarlenAttention::RunBackward(const VarlenTiles& given,
                                                   const at::Tensor& dout_MHD,
                                                   const at::Tensor& out_MHD,
                                                   const at::Tensor& lse_MH) const {
  const VarlenTiles tiles = InAccumulateType(given);
  const at::ScalarType type = tiles.q_MHD.scalar_type();
  const at::Tensor dout = dout_MHD.to(type),
                   delta_MH1 = (dout * out_MHD.to(type)).sum({2}, /*keepdim=*/true),
                   minus_lse_MH1 = lse_MH.neg().unsqueeze(2);
  const auto zeros = [](const at::Tensor& rows) { return at::zeros(rows.sizes(), rows.options()); };
  const TileGradients all{zeros(tiles.q_MHD), zeros(tiles.k_NKD), zeros(tiles.v_NKD)};
  const BatchPlan plan = PlanOf(tiles, PairsOf(tiles, score_bytes_));
  for (const Batch& batch : plan.small) {
    const Work work(batch, tiles);
    const TileGradients part = work.Backward(dout, delta_MH1, minus_lse_MH1);
    work.queries().Put(part.dq_MHD, all.dq_MHD);
    work.keys().Put(part.dk_NKD, all.dk_NKD);
    work.keys().Put(part.dv_NKD, all.dv_NKD);
  }
  for (const BatchPlan::Large& large : plan.large) {
    for (const Batch& piece : large.pieces) {
      const TileGradients part = Work(piece, tiles).Backward(dout, delta_MH1, minus_lse_MH1);
      RowsOfRange(all.dq_MHD, piece.queries[0]).add_(part.dq_MHD.squeeze(0));
      RowsOfRange(all.dk_NKD, piece.keys[0]).add_(part.dk_NKD.squeeze(0));
      RowsOfRange(all.dv_NKD, piece.keys[0]).add_(part.dv_NKD.squeeze(0));
    }
  }
  return all;
}

}  // namespace moonring::attention
