#include "attention/kernels/cudnn_attention.h"

#include <optional>
#include <tuple>

#include <ATen/Context.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

namespace moonring::attention {
namespace {

constexpr int64_t kMostHeadDim = 256;  // on Hopper; other GPUs refuse head dims beyond 128

// Views: BatchOfRows converts [rows, heads, D] to [1, heads, rows, D], RowsOfBatch converts back.
at::Tensor BatchOfRows(const at::Tensor& rows) { return rows.transpose(0, 1).unsqueeze(0); }
at::Tensor RowsOfBatch(const at::Tensor& batch) { return batch.squeeze(0).transpose(0, 1); }

bool IsCausal(const Tile& tile) { return tile.kind != TileKind::kFull; }

}  // namespace

bool CudnnTakes(at::ScalarType type, int64_t head_dim, TileKind kind, int64_t window,
                int64_t queries, int64_t keys) {
  if (type != at::kBFloat16 && type != at::kHalf) return false;
  if (head_dim % 8 != 0 || head_dim > kMostHeadDim) return false;
  if (queries < 2 || keys < 2 || at::globalContext().deterministicAlgorithms()) return false;
  switch (kind) {
    case TileKind::kFull:
      // On Hopper, if half a tile of keys remains (keys % 128 = 64), the backward of cuDNN 9.19
      // does not mask the missing half, and rows whose logits are all far below zero become NaN
      // (pytorch#196678).
      return keys % 128 != 64;
    case TileKind::kCausal:
      return true;
    case TileKind::kBand:
      return queries == keys && (window == 0 || window >= keys);
    case TileKind::kWindowEdge:
      break;
  }
  return false;
}

PartialAttention CudnnForward(const Tile& tile) {
  const auto results = at::_scaled_dot_product_cudnn_attention(
      BatchOfRows(tile.q_MHD), BatchOfRows(tile.k_NKD), BatchOfRows(tile.v_NKD),
      /*attn_bias=*/std::nullopt,
      /*compute_log_sumexp=*/true, /*dropout_p=*/0.0, IsCausal(tile), /*return_debug_mask=*/false,
      tile.score.scale);
  const at::Tensor& lse = std::get<1>(results);  // [1, H, M, 1]
  return {RowsOfBatch(std::get<0>(results)), lse.reshape({lse.size(1), lse.size(2)}).t()};
}

TileGradients CudnnBackward(const Tile& tile, const at::Tensor& dout_MHD, const at::Tensor& out_MHD,
                            const at::Tensor& lse_MH) {
  // cuDNN requires dout to have the strides of out.
  const auto dense = [&](const at::Tensor& rows) {
    return BatchOfRows(rows.to(tile.q_MHD.scalar_type()).contiguous());
  };
  const at::Tensor lse = lse_MH.t().contiguous().unsqueeze(0).unsqueeze(3), none;
  const at::Tensor no_dropout = at::empty({}, lse.options().dtype(at::kLong));
  const auto [dq, dk, dv] = at::_scaled_dot_product_cudnn_attention_backward(
      dense(dout_MHD), BatchOfRows(tile.q_MHD), BatchOfRows(tile.k_NKD), BatchOfRows(tile.v_NKD),
      dense(out_MHD), lse,
      /*philox_seed=*/no_dropout, /*philox_offset=*/no_dropout, /*attn_bias=*/none,
      /*cum_seq_q=*/none, /*cum_seq_k=*/none, tile.q_MHD.size(0), tile.k_NKD.size(0),
      /*dropout_p=*/0.0, IsCausal(tile), tile.score.scale);
  return {RowsOfBatch(dq), RowsOfBatch(dk), RowsOfBatch(dv)};
}

}  // namespace moonring::attention
