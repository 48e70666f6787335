#include "attention/device_block_attention.h"

namespace moonring::attention {

const BlockAttention& DeviceBlockAttention::On(const at::Tensor& tensor) const {
  if (tensor.device().is_cpu()) return cpu_;
  return reference_;
}

PartialAttention DeviceBlockAttention::RunForward(const Tile& tile) const { return On(tile.q_MHD).Forward(tile); }

TileGradients DeviceBlockAttention::RunBackward(const Tile& tile, const at::Tensor& dout_MHD, const at::Tensor& out_MHD, const at::Tensor& lse_MH) const {
  return On(tile.q_MHD).Backward(tile, dout_MHD, out_MHD, lse_MH);
}

}  // namespace moonring::attention
