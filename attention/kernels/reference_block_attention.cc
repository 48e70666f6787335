#include "attention/kernels/reference_block_attention.h"

namespace moonring::attention {
namespace {

at::Tensor InDouble(const at::Tensor& rows) { return rows.to(at::kDouble); }

Tile InDouble(const Tile& tile) {
  return {InDouble(tile.q_MHD), InDouble(tile.k_NKD), InDouble(tile.v_NKD), tile.kind, tile.score};
}

}  // namespace

PartialAttention ReferenceBlockAttention::RunForward(const Tile& tile) const {
  const at::ScalarType type = tile.q_MHD.scalar_type();
  const PartialAttention part = explicit_.Forward(InDouble(tile));
  return {part.out_MHD.to(type), part.lse_MH.to(type)};
}

TileGradients ReferenceBlockAttention::RunBackward(const Tile& tile, const at::Tensor& dout_MHD,
                                                   const at::Tensor& out_MHD,
                                                   const at::Tensor& lse_MH) const {
  const at::ScalarType type = tile.q_MHD.scalar_type();
  const TileGradients gradients =
      explicit_.Backward(InDouble(tile), InDouble(dout_MHD), InDouble(out_MHD), InDouble(lse_MH));
  return {gradients.dq_MHD.to(type), gradients.dk_NKD.to(type), gradients.dv_NKD.to(type)};
}

}  // namespace moonring::attention
