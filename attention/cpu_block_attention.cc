#include "attention/cpu_block_attention.h"

#include <ATen/ops/empty.h>

#include "attention/flash_tile.h"

namespace moonring::attention {
namespace {

StridedRows RowsOf(const at::Tensor& rows) {
  return {rows.const_data_ptr<float>(), rows.stride(0), rows.stride(1)};
}

FlashTile FlashTileOf(const Tile& tile) {
  return {.q = RowsOf(tile.q_MHD),
          .k = RowsOf(tile.k_NKD),
          .v = RowsOf(tile.v_NKD),
          .queries = tile.q_MHD.size(0),
          .keys = tile.k_NKD.size(0),
          .heads = tile.q_MHD.size(1),
          .kv_heads = tile.k_NKD.size(1),
          .head_dim = tile.q_MHD.size(2),
          .kind = tile.kind,
          .scale = static_cast<float>(tile.score.scale),
          .softcap = static_cast<float>(tile.score.softcap)};
}

bool IsFloat(const Tile& tile) { return tile.q_MHD.scalar_type() == at::kFloat; }

}  // namespace

PartialAttention CpuBlockAttention::RunForward(const Tile& tile) const {
  if (!IsFloat(tile)) return explicit_.Forward(tile);
  const PartialAttention part{at::empty(tile.q_MHD.sizes(), tile.q_MHD.options()),
                              at::empty(tile.q_MHD.sizes().slice(0, 2), tile.q_MHD.options())};
  FlashForward(FlashTileOf(tile), part.out_MHD.mutable_data_ptr<float>(),
               part.lse_MH.mutable_data_ptr<float>());
  return part;
}

TileGradients CpuBlockAttention::RunBackward(const Tile& tile, const at::Tensor& dout_MHD,
                                             const at::Tensor& out_MHD,
                                             const at::Tensor& lse_MH) const {
  if (!IsFloat(tile)) return explicit_.Backward(tile, dout_MHD, out_MHD, lse_MH);
  const auto like = [](const at::Tensor& rows) { return at::empty(rows.sizes(), rows.options()); };
  const TileGradients gradients{like(tile.q_MHD), like(tile.k_NKD), like(tile.v_NKD)};
  FlashBackward(FlashTileOf(tile), RowsOf(dout_MHD), RowsOf(out_MHD), RowsOf(lse_MH),
                gradients.dq_MHD.mutable_data_ptr<float>(),
                gradients.dk_NKD.mutable_data_ptr<float>(),
                gradients.dv_NKD.mutable_data_ptr<float>());
  return gradients;
}

}  // namespace moonring::attention
