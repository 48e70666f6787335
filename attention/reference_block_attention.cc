#include "attention/reference_block_attention.h"

#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>

namespace moonring::attention {
namespace {

// [rows, heads, D] -> fp64 [heads, rows, D], each head repeated for the query heads that read it.
at::Tensor ByHead(const at::Tensor& rows, int64_t repeats = 1) { return rows.to(at::kDouble).repeat_interleave(repeats, 1).transpose(0, 1); }

// scale Q K^T with -inf where a query does not see a key, [H, M, N].
at::Tensor Scores(const Tile& tile, const at::Tensor& q_HMD, const at::Tensor& k_HND) {
  at::Tensor scores = at::matmul(q_HMD, k_HND.transpose(1, 2)) * tile.scale;
  if (tile.kind != TileKind::kFull) {
    const at::Tensor all = at::ones({scores.size(1), scores.size(2)}, scores.options().dtype(at::kBool));
    scores.masked_fill_(tile.kind == TileKind::kCausal ? all.triu(1) : all.tril(-1), -std::numeric_limits<double>::infinity());
  }
  return scores;
}

// [H, N, D] -> [N, K, D], summed over the query heads of each kv head.
at::Tensor SumGroups(const at::Tensor& gradient_HND, int64_t kv_heads) {
  return gradient_HND.unflatten(0, {kv_heads, gradient_HND.size(0) / kv_heads}).sum(1).transpose(0, 1);
}

}  // namespace

PartialAttention ReferenceBlockAttention::RunForward(const Tile& tile) const {
  const int64_t repeats = tile.q_MHD.size(1) / tile.k_NKD.size(1);
  const at::Tensor scores = Scores(tile, ByHead(tile.q_MHD), ByHead(tile.k_NKD, repeats));
  const at::Tensor lse = at::logsumexp(scores, {2});
  const at::Tensor out = at::matmul(at::exp(scores - lse.unsqueeze(2)), ByHead(tile.v_NKD, repeats));
  const at::ScalarType type = tile.q_MHD.scalar_type();
  return {out.transpose(0, 1).to(type), lse.transpose(0, 1).to(type)};
}

TileGradients ReferenceBlockAttention::RunBackward(const Tile& tile, const at::Tensor& dout_MHD, const at::Tensor& out_MHD, const at::Tensor& lse_MH) const {
  const int64_t kv_heads = tile.k_NKD.size(1), repeats = tile.q_MHD.size(1) / kv_heads;
  const at::Tensor q = ByHead(tile.q_MHD), k = ByHead(tile.k_NKD, repeats), v = ByHead(tile.v_NKD, repeats);
  const at::Tensor dout = ByHead(dout_MHD), lse = lse_MH.to(at::kDouble).transpose(0, 1);
  const at::Tensor delta = (dout * ByHead(out_MHD)).sum(2, /*keepdim=*/true);
  const at::Tensor p = at::exp(Scores(tile, q, k) - lse.unsqueeze(2));
  const at::Tensor ds = p * (at::matmul(dout, v.transpose(1, 2)) - delta) * tile.scale;
  const at::ScalarType type = tile.q_MHD.scalar_type();
  return {at::matmul(ds, k).transpose(0, 1).to(type), SumGroups(at::matmul(ds.transpose(1, 2), q), kv_heads).to(type),
          SumGroups(at::matmul(p.transpose(1, 2), dout), kv_heads).to(type)};
}

}  // namespace moonring::attention
