#include "attention/cpu_block_attention.h"

#include <tuple>

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>

namespace moonring::attention {
namespace {

// [rows, heads, D] <-> [1, heads, rows, D], and the same without D, as views.
at::Tensor ToBatch(const at::Tensor& rows) { return rows.transpose(0, 1).unsqueeze(0); }
at::Tensor FromBatch(const at::Tensor& batch) { return batch.squeeze(0).transpose(0, 1); }

}  // namespace

PartialAttention CpuBlockAttention::RunForward(const Tile& tile) const {
  auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(ToBatch(tile.q_MHD), ToBatch(tile.k_NKD), ToBatch(tile.v_NKD), /*dropout_p=*/0.0,
                                                                    tile.kind == TileKind::kCausal, /*attn_mask=*/{}, tile.scale);
  return {FromBatch(out), FromBatch(lse)};
}

TileGradients CpuBlockAttention::RunBackward(const Tile& tile, const at::Tensor& dout_MHD, const at::Tensor& out_MHD, const at::Tensor& lse_MH) const {
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(ToBatch(dout_MHD), ToBatch(tile.q_MHD), ToBatch(tile.k_NKD), ToBatch(tile.v_NKD),
                                                                               ToBatch(out_MHD), ToBatch(lse_MH), /*dropout_p=*/0.0,
                                                                               tile.kind == TileKind::kCausal, /*attn_mask=*/{}, tile.scale);
  return {FromBatch(dq), FromBatch(dk), FromBatch(dv)};
}

}  // namespace moonring::attention
