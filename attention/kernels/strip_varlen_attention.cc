#include "attention/kernels/strip_varlen_attention.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "attention/kernels/padded_rows.h"
#include "attention/kernels/softmax_merge.h"
#include "attention/kernels/strip_plan.h"
#include "attention/kernels/strip_scores.h"
#include "base/memory/to_device.h"
#include "kernels/products/products.h"
#include "kernels/score_rows.h"

namespace moonring::attention {
namespace {

// The queries of a strip's ranges: [B K, G m, .], where each of K kv heads has G query heads.
class QueryRows {
 public:
  QueryRows(const Strip& strip, const VarlenTiles& tiles)
      : rows_(strip.queries, tiles.q_MHD.device()),
        kv_heads_(tiles.k_NKD.size(1)),
        group_(tiles.q_MHD.size(1) / kv_heads_) {}

  at::Tensor Of(const at::Tensor& rows_MHD) const {
    const at::Tensor all = rows_.Of(rows_MHD).unflatten(2, {kv_heads_, group_});
    return all.permute({0, 2, 3, 1, 4})
        .reshape({rows_.batch() * kv_heads_, group_ * rows_.longest(), rows_MHD.size(2)});
  }
  // Views of the result of Of(), or of a product with it: ByHead as [B, K, G, m, .], InOrder as [B,
  // m, H, .].
  at::Tensor ByHead(const at::Tensor& rows) const {
    return rows.unflatten(0, {rows_.batch(), kv_heads_}).unflatten(2, {group_, rows_.longest()});
  }
  at::Tensor InOrder(const at::Tensor& rows) const {
    return ByHead(rows).permute({0, 3, 1, 2, 4}).flatten(2, 3);
  }
  // Scores in the kernel's layout [B, H, m, n], and back.
  at::Tensor ScoresByHead(const at::Tensor& scores) const { return ByHead(scores).flatten(1, 2); }
  at::Tensor ForProducts(const at::Tensor& scores_BHMN) const {
    return scores_BHMN.unflatten(1, {kv_heads_, group_}).flatten(2, 3).flatten(0, 1);
  }

  const PaddedRows& rows() const { return rows_; }
  int64_t kv_heads() const { return kv_heads_; }

 private:
  PaddedRows rows_;
  int64_t kv_heads_, group_;
};

// The keys of one piece of a strip: [B K, n, .].
class KeyRows {
 public:
  KeyRows(const StripKeys& piece, const VarlenTiles& tiles)
      : rows_(piece.keys, tiles.q_MHD.device()), kv_heads_(tiles.k_NKD.size(1)) {
    std::vector<int64_t> seen;
    for (const SeenPairs& each : piece.seen)
      seen.insert(seen.end(), {each.queries, each.keys, each.low, each.high});
    seen_B4_ = base::ToDevice(seen, tiles.q_MHD.device()).view({-1, 4});
  }

  at::Tensor Of(const at::Tensor& rows_NKD) const {
    return rows_.Of(rows_NKD).transpose(1, 2).reshape(
        {rows_.batch() * kv_heads_, rows_.longest(), rows_NKD.size(2)});
  }

  // Adds alpha a b of each kv head to these rows of `sums`. If the keys are one range, its rows are
  // a view, to which the product is added directly. If they are several ranges, no other strip has
  // these keys, so the rows of `sums` are overwritten.
  void AddProduct(const at::Tensor& a, const at::Tensor& b, double alpha,
                  const at::Tensor& sums_NKD) const {
    if (rows_.batch() == 1) return kernels::AddProducts(Of(sums_NKD), a, b, /*beta=*/1.0, alpha);
    const at::Tensor made = at::empty({a.size(0), a.size(1), b.size(2)}, sums_NKD.options());
    kernels::AddProducts(made, a, b, /*beta=*/0.0, alpha);
    rows_.Put(made.unflatten(0, {rows_.batch(), kv_heads_}).transpose(1, 2), sums_NKD);
  }

  const at::Tensor& seen_B4() const { return seen_B4_; }
  int64_t longest() const { return rows_.longest(); }

 private:
  PaddedRows rows_;
  int64_t kv_heads_;
  at::Tensor seen_B4_;
};

// The product a b^T of each kv head, arranged by query head.
at::Tensor StripScores(const QueryRows& queries, const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor made =
      kernels::ScoreMemory({a.size(0), a.size(1), b.size(1)}, a.options().dtype(at::kFloat));
  kernels::AddProducts(made, a, b.transpose(1, 2), /*beta=*/0.0);
  return queries.ScoresByHead(made);
}

// The product p v [B K, G m, Dv] in fp32, and the softmax's sum and lse.
struct Weighted {
  at::Tensor values, sum_BHM1, lse_BHM1;
};

Weighted WeightedOf(const QueryRows& queries, const at::Tensor& q, const KeyRows& keys,
                    const VarlenTiles& tiles) {
  const StripSoftmax softmax =
      SoftmaxOfStrip(StripScores(queries, q, keys.Of(tiles.k_NKD)), keys.seen_B4(), tiles.score,
                     tiles.q_MHD.scalar_type());
  const at::Tensor values =
      at::empty({q.size(0), q.size(1), tiles.v_NKD.size(2)}, q.options().dtype(at::kFloat));
  kernels::AddProducts(values, queries.ForProducts(softmax.p_BHMN), keys.Of(tiles.v_NKD),
                       /*beta=*/0.0);
  return {values, softmax.sum_BHM1, softmax.lse_BHM1};
}

at::Tensor HeadsLast(const at::Tensor& one_BHM1) { return one_BHM1.transpose(1, 2); }

// Writes values / sum to the strip's rows of `all`. If these rows are contiguous, this is one pass
// without a temporary.
void PutWhole(const QueryRows& queries, const Weighted& weighted, const PartialAttention& all) {
  const at::Tensor values = queries.InOrder(weighted.values), sum = HeadsLast(weighted.sum_BHM1);
  if (queries.rows().is_run()) {
    at::Tensor into = queries.rows().Of(all.out_MHD);
    at::div_out(into, values, sum);
  } else {
    queries.rows().Put(values.div(sum), all.out_MHD);
  }
  queries.rows().Put(HeadsLast(weighted.lse_BHM1).squeeze(3), all.lse_MH);
}

// Merges and writes the results of one range of queries whose keys are in several pieces.
void PutMerged(const Strip& strip, const QueryRows& queries, const at::Tensor& q,
               const VarlenTiles& tiles, const PartialAttention& all) {
  const RowRange& rows = strip.queries[0];
  SoftmaxState state = SoftmaxState::Empty(rows.rows(), tiles.q_MHD.size(1), tiles.v_NKD.size(2),
                                           all.lse_MH.options());
  for (const StripKeys& piece : strip.pieces) {
    const Weighted weighted = WeightedOf(queries, q, KeyRows(piece, tiles), tiles);
    const at::Tensor out = queries.InOrder(weighted.values).squeeze(0);
    Merge({out.div_(HeadsLast(weighted.sum_BHM1).squeeze(0)),
           HeadsLast(weighted.lse_BHM1).squeeze(3).squeeze(0)},
          state);
  }
  const PartialAttention done = Finish(std::move(state));
  RowsOfRange(all.out_MHD, rows).copy_(done.out_MHD);
  RowsOfRange(all.lse_MH, rows).copy_(done.lse_MH);
}

void CheckDtype(const VarlenTiles& tiles) {
  const at::ScalarType type = tiles.q_MHD.scalar_type();
  TORCH_CHECK(type == at::kBFloat16 || type == at::kHalf, "attention by strips: of ", type,
              ", expected bf16 or fp16");
}

// The number of pairs of one query head whose scores fit in `score_bytes`. `each`: bytes per pair.
int64_t PairsAtOnce(const VarlenTiles& tiles, int64_t score_bytes, int64_t each) {
  return std::max<int64_t>(1, score_bytes / (each * tiles.q_MHD.size(1)));
}

}  // namespace

PartialAttention StripVarlenAttention::RunForward(const VarlenTiles& tiles) const {
  CheckDtype(tiles);
  const at::TensorOptions wide = tiles.q_MHD.options().dtype(at::kFloat);
  const PartialAttention all{at::empty(OutShape(tiles.q_MHD, tiles.v_NKD), wide),
                             at::empty(tiles.q_MHD.sizes().slice(0, 2), wide)};
  for (const Strip& strip : PlanStrips(tiles, PairsAtOnce(tiles, score_bytes_, sizeof(float)))) {
    const QueryRows queries(strip, tiles);
    const at::Tensor q = queries.Of(tiles.q_MHD);
    if (strip.pieces.size() > 1) {
      PutMerged(strip, queries, q, tiles, all);
    } else {
      PutWhole(queries, WeightedOf(queries, q, KeyRows(strip.pieces[0], tiles), tiles), all);
    }
  }
  return all;
}

TileGradients StripVarlenAttention::RunBackward(const VarlenTiles& tiles,
                                                const at::Tensor& dout_MHD,
                                                const at::Tensor& out_MHD,
                                                const at::Tensor& lse_MH) const {
  CheckDtype(tiles);
  const at::ScalarType type = tiles.q_MHD.scalar_type();
  const at::TensorOptions wide = tiles.q_MHD.options().dtype(at::kFloat);
  const at::Tensor dout_16_MHD = dout_MHD.to(type),
                   delta_MH1 = (dout_16_MHD * out_MHD.to(at::kFloat)).sum({2}, /*keepdim=*/true),
                   lse_MH1 = lse_MH.unsqueeze(2);
  const TileGradients all{at::empty(tiles.q_MHD.sizes(), wide),
                          at::zeros(tiles.k_NKD.sizes(), wide),
                          at::zeros(tiles.v_NKD.sizes(), wide)};
  for (const Strip& strip :
       PlanStrips(tiles, PairsAtOnce(tiles, score_bytes_, 2 * sizeof(float)))) {
    const QueryRows queries(strip, tiles);
    const at::Tensor q = queries.Of(tiles.q_MHD), dout = queries.Of(dout_16_MHD),
                     lse = queries.ScoresByHead(queries.Of(lse_MH1)).contiguous(),
                     delta = queries.ScoresByHead(queries.Of(delta_MH1)).contiguous(),
                     dq = at::empty(q.sizes(), wide);
    for (const StripKeys& piece : strip.pieces) {
      const KeyRows keys(piece, tiles);
      const at::Tensor k = keys.Of(tiles.k_NKD);
      const StripGradients made = GradientsOfStrip(StripScores(queries, q, k),
                                                   StripScores(queries, dout, keys.Of(tiles.v_NKD)),
                                                   lse, delta, keys.seen_B4(), tiles.score, type);
      const at::Tensor p = queries.ForProducts(made.p_BHMN), ds = queries.ForProducts(made.ds_BHMN);
      keys.AddProduct(p.transpose(1, 2), dout, /*alpha=*/1.0, all.dv_NKD);
      keys.AddProduct(ds.transpose(1, 2), q, tiles.score.scale, all.dk_NKD);
      kernels::AddProducts(dq, ds, k, /*beta=*/&piece == &strip.pieces.front() ? 0.0 : 1.0,
                           tiles.score.scale);
    }
    queries.rows().Put(queries.InOrder(dq), all.dq_MHD);
  }
  return all;
}

}  // namespace moonring::attention
