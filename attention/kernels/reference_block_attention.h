#ifndef MOONRING_ATTENTION_KERNELS_REFERENCE_BLOCK_ATTENTION_H_
#define MOONRING_ATTENTION_KERNELS_REFERENCE_BLOCK_ATTENTION_H_

// BlockAttention with materialized scores in fp64 for all inputs, rounded once to fp32 (fp64 for
// fp64) at the end. For tests, and to distinguish a kernel's error from a strategy's.

#include "attention/kernels/block_attention.h"
#include "attention/kernels/explicit_block_attention.h"

namespace moonring::attention {

class ReferenceBlockAttention final : public BlockAttention {
 public:
  absl::string_view name() const override { return "reference"; }

 private:
  PartialAttention RunForward(const Tile& tile) const override;
  TileGradients RunBackward(const Tile& tile, const at::Tensor& dout_MHD, const at::Tensor& out_MHD,
                            const at::Tensor& lse_MH) const override;

  ExplicitBlockAttention explicit_;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_REFERENCE_BLOCK_ATTENTION_H_
