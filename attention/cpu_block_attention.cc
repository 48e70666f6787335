#include "attention/cpu_block_attention.h"

#include <tuple>

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/flip.h>

namespace moonring::attention {
namespace {

// [rows, heads, D] <-> [1, heads, rows, D], and the same without D, as views.
at::Tensor ToBatch(const at::Tensor& rows) { return rows.transpose(0, 1).unsqueeze(0); }
at::Tensor FromBatch(const at::Tensor& batch) { return batch.squeeze(0).transpose(0, 1); }

// Matrix products take other ways, and round otherwise, where rows do not lie on cache lines: what a head gives would depend on
// the heads beside it. Rows of such a width are filled up with zeros, which add nothing to a product.
constexpr int64_t kCacheLine = 64;
at::Tensor Aligned(const at::Tensor& rows) {
  const int64_t line = kCacheLine / rows.element_size(), beyond = rows.size(2) % line;
  return beyond == 0 ? rows : at::constant_pad_nd(rows, {0, line - beyond});
}

at::Tensor Reversed(const at::Tensor& rows) { return rows.flip({0}); }

Tile ReversedTile(const Tile& tile) { return {Reversed(tile.q_MHD), Reversed(tile.k_NKD), Reversed(tile.v_NKD), TileKind::kCausal, tile.score}; }

PartialAttention FlashForward(const Tile& tile) {
  if (tile.kind == TileKind::kWindowEdge) {
    const PartialAttention part = FlashForward(ReversedTile(tile));
    return {Reversed(part.out_MHD), Reversed(part.lse_MH)};
  }
  auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(ToBatch(tile.q_MHD), ToBatch(tile.k_NKD), ToBatch(tile.v_NKD), /*dropout_p=*/0.0,
                                                                    tile.kind == TileKind::kCausal, /*attn_mask=*/{}, tile.score.scale);
  return {FromBatch(out), FromBatch(lse)};
}

}  // namespace

PartialAttention CpuBlockAttention::RunForward(const Tile& tile) const {
  const Tile aligned{Aligned(tile.q_MHD), Aligned(tile.k_NKD), Aligned(tile.v_NKD), tile.kind, tile.score};
  const PartialAttention part = tile.score.softcap != 0.0 ? explicit_.Forward(aligned) : FlashForward(aligned);
  return {part.out_MHD.narrow(2, 0, tile.q_MHD.size(2)), part.lse_MH};
}

TileGradients CpuBlockAttention::RunBackward(const Tile& tile, const at::Tensor& dout_MHD, const at::Tensor& out_MHD, const at::Tensor& lse_MH) const {
  if (tile.score.softcap != 0.0) return explicit_.Backward(tile, dout_MHD, out_MHD, lse_MH);
  if (tile.kind == TileKind::kWindowEdge) {
    const TileGradients gradients = RunBackward(ReversedTile(tile), Reversed(dout_MHD), Reversed(out_MHD), Reversed(lse_MH));
    return {Reversed(gradients.dq_MHD), Reversed(gradients.dk_NKD), Reversed(gradients.dv_NKD)};
  }
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(ToBatch(dout_MHD), ToBatch(tile.q_MHD), ToBatch(tile.k_NKD), ToBatch(tile.v_NKD),
                                                                               ToBatch(out_MHD), ToBatch(lse_MH), /*dropout_p=*/0.0,
                                                                               tile.kind == TileKind::kCausal, /*attn_mask=*/{}, tile.score.scale);
  return {FromBatch(dq), FromBatch(dk), FromBatch(dv)};
}

}  // namespace moonring::attention
