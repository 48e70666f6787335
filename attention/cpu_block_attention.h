#ifndef MOONRING_ATTENTION_CPU_BLOCK_ATTENTION_H_
#define MOONRING_ATTENTION_CPU_BLOCK_ATTENTION_H_

// BlockAttention on CPUs: fp32, and bf16 computed in fp32, by flash_tile.h, which never holds M x N
// scores; fp64, which is for tests, with its scores written out (explicit_block_attention.h).
//
// Bit-exact in the forward pass under any split by heads, for any head dim (asserted by the tests).

#include "attention/block_attention.h"
#include "attention/explicit_block_attention.h"

namespace moonring::attention {

class CpuBlockAttention final : public BlockAttention {
 public:
  absl::string_view name() const override { return "cpu"; }

 private:
  PartialAttention RunForward(const Tile& tile) const override;
  TileGradients RunBackward(const Tile& tile, const at::Tensor& dout_MHD, const at::Tensor& out_MHD,
                            const at::Tensor& lse_MH) const override;

  ExplicitBlockAttention explicit_;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_CPU_BLOCK_ATTENTION_H_
