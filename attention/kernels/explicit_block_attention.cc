#include "attention/kernels/explicit_block_attention.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/zeros.h>

#include "attention/kernels/softmax_merge.h"

namespace moonring::attention {
namespace {

// Queries and keys of a piece, such that its scores fit a core's cache. The size does not depend on
// the number of heads, since it affects the rounding in the forward.
constexpr int64_t kPiece = 512;

std::vector<TileRows> PiecesOf(const Tile& tile) {
  const int64_t queries = tile.q_MHD.size(0), keys = tile.k_NKD.size(0);
  std::vector<TileRows> pieces;
  for (int64_t i = 0; i < queries; i += kPiece) {
    for (int64_t j = 0; j < keys; j += kPiece) {
      if ((tile.kind == TileKind::kCausal && j > i) ||
          (tile.kind == TileKind::kWindowEdge && j < i))
        continue;
      pieces.push_back({{i, std::min(i + kPiece, queries)},
                        {j, std::min(j + kPiece, keys)},
                        i == j ? tile.kind : TileKind::kFull});
    }
  }
  return pieces;
}

// Converts products to Y in place (score = cap Y, see ScoreFunction::cap). The factor cap is
// applied later, together with a subtraction, which saves a pass over the scores.
void Bend(const at::Tensor& products, const ScoreFunction& score) {
  if (score.softcap != 0.0) products.tanh_();
}

// Sets masked scores [..., m, n] to -inf.
void Hide(const at::Tensor& scores, TileKind kind) {
  if (kind == TileKind::kFull) return;
  const at::Tensor all =
      at::ones({scores.size(-2), scores.size(-1)}, scores.options().dtype(at::kBool));
  scores.masked_fill_(kind == TileKind::kCausal ? all.triu(1) : all.tril(-1),
                      -std::numeric_limits<double>::infinity());
}

PartialAttention ForwardOf(const Tile& tile) {
  const int64_t m = tile.q_MHD.size(0), heads = tile.q_MHD.size(1), n = tile.k_NKD.size(0),
                kv_heads = tile.k_NKD.size(1), group = heads / kv_heads;
  const at::TensorOptions options = tile.q_MHD.options();
  const at::Tensor out_HMD = at::empty({heads, m, tile.v_NKD.size(2)}, options),
                   lse_HM = at::empty({heads, m}, options);
  at::Tensor scores = at::empty({group, m, n}, options);
  const double cap = tile.score.cap();
  for (int64_t kv = 0; kv < kv_heads; ++kv) {
    const auto shared = [&](const at::Tensor& rows_NKD) {
      return rows_NKD.select(1, kv).unsqueeze(0).expand({group, -1, -1});
    };
    scores.baddbmm_(tile.q_MHD.narrow(1, kv * group, group).transpose(0, 1),
                    shared(tile.k_NKD).transpose(1, 2), /*beta=*/0, tile.score.scale / cap);
    Bend(scores, tile.score);
    Hide(scores, tile.kind);
    const at::Tensor max = scores.amax({2}, /*keepdim=*/true).mul_(cap);
    const at::Tensor sum =
        at::add_out(scores, max.neg(), scores, cap).exp_().sum({2}, /*keepdim=*/true);
    at::Tensor out = out_HMD.narrow(0, kv * group, group);
    at::bmm_out(out, scores, shared(tile.v_NKD)).div_(sum);
    lse_HM.narrow(0, kv * group, group).copy_(sum.log().add_(max).squeeze(2));
  }
  return {out_HMD.transpose(0, 1), lse_HM.transpose(0, 1)};
}

}  // namespace

PartialAttention ExplicitBlockAttention::RunForward(const Tile& tile) const {
  const std::vector<TileRows> pieces = PiecesOf(tile);
  if (pieces.size() == 1) return ForwardOf(tile);
  const int64_t heads = tile.q_MHD.size(1);
  const SoftmaxState state =
      SoftmaxState::Empty(tile.q_MHD.size(0), heads, tile.v_NKD.size(2), tile.q_MHD.options());
  for (const TileRows& piece : pieces) {
    SoftmaxState of_piece = state.Slice(piece.queries, 0, heads);
    Merge(ForwardOf({RowsOfRange(tile.q_MHD, piece.queries), RowsOfRange(tile.k_NKD, piece.keys),
                     RowsOfRange(tile.v_NKD, piece.keys), piece.kind, tile.score}),
          of_piece);
  }
  return Finish(state);
}

TileGradients ExplicitBlockAttention::RunBackward(const Tile& tile, const at::Tensor& dout_MHD,
                                                  const at::Tensor& out_MHD,
                                                  const at::Tensor& lse_MH) const {
  const int64_t kv_heads = tile.k_NKD.size(1), group = tile.q_MHD.size(1) / kv_heads;
  const double scale = tile.score.scale, cap = tile.score.cap();
  const at::TensorOptions options = tile.q_MHD.options();
  const at::Tensor dq_HMD =
      at::zeros({tile.q_MHD.size(1), tile.q_MHD.size(0), tile.q_MHD.size(2)}, options);
  const at::Tensor dk_NKD = at::zeros(tile.k_NKD.sizes(), options),
                   dv_NKD = at::zeros(tile.v_NKD.sizes(), options);
  const at::Tensor delta_MH1 = (dout_MHD * out_MHD).sum({2}, /*keepdim=*/true),
                   minus_lse_MH1 = lse_MH.neg().unsqueeze(2);
  for (const TileRows& piece : PiecesOf(tile)) {
    for (int64_t kv = 0; kv < kv_heads; ++kv) {
      // [G m, D] or [G m, 1]: the rows of one head after those of another.
      const auto folded = [&](const at::Tensor& rows_MHD) {
        return RowsOfRange(rows_MHD, piece.queries)
            .narrow(1, kv * group, group)
            .transpose(0, 1)
            .flatten(0, 1);
      };
      const auto of_keys = [&](const at::Tensor& rows_NKD) {
        return RowsOfRange(rows_NKD, piece.keys).select(1, kv);
      };
      const at::Tensor q = folded(tile.q_MHD), dout = folded(dout_MHD), k = of_keys(tile.k_NKD),
                       v = of_keys(tile.v_NKD);
      const at::Tensor y = at::empty({q.size(0), k.size(0)}, options);
      Bend(y.addmm_(q, k.t(), /*beta=*/0, scale / cap), tile.score);
      const at::Tensor p = at::add(folded(minus_lse_MH1), y, cap);
      Hide(p.unflatten(0, {group, -1}), piece.kind);
      p.exp_();
      of_keys(dv_NKD).addmm_(p.t(), dout);
      at::Tensor dz = at::empty_like(p);
      dz.addmm_(dout, v.t(), /*beta=*/0).sub_(folded(delta_MH1)).mul_(p);
      if (tile.score.softcap != 0.0) at::tanh_backward_out(dz, dz, y);  // dz (1 - y^2)
      of_keys(dk_NKD).addmm_(dz.t(), q, /*beta=*/1, scale);
      const at::Tensor dq =
          dq_HMD.narrow(0, kv * group, group).narrow(1, piece.queries.begin, piece.queries.rows());
      dq.baddbmm_(dz.unflatten(0, {group, -1}), k.unsqueeze(0).expand({group, -1, -1}), /*beta=*/1,
                  scale);
    }
  }
  return {dq_HMD.transpose(0, 1), dk_NKD, dv_NKD};
}

}  // namespace moonring::attention
