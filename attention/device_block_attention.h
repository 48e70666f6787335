#ifndef MOONRING_ATTENTION_DEVICE_BLOCK_ATTENTION_H_
#define MOONRING_ATTENTION_DEVICE_BLOCK_ATTENTION_H_

// BlockAttention by the kernels of the device that a tile lies on: the flash kernel on the CPU, the reference (whole scores of
// a tile, in fp64: exact and slow) on any other.

#include "attention/block_attention.h"
#include "attention/cpu_block_attention.h"
#include "attention/reference_block_attention.h"

namespace moonring::attention {

class DeviceBlockAttention final : public BlockAttention {
 public:
  absl::string_view name() const override { return "device"; }

 private:
  const BlockAttention& On(const at::Tensor& tensor) const;
  PartialAttention RunForward(const Tile& tile) const override;
  TileGradients RunBackward(const Tile& tile, const at::Tensor& dout_MHD, const at::Tensor& out_MHD, const at::Tensor& lse_MH) const override;

  CpuBlockAttention cpu_;
  ReferenceBlockAttention reference_;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_DEVICE_BLOCK_ATTENTION_H_
