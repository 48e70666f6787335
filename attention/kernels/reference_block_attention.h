#ifndef MOONRING_ATTENTION_KERNELS_REFERENCE_BLOCK_ATTENTION_H_
#define MOONRING_ATTENTION_KERNELS_REFERENCE_BLOCK_ATTENTION_H_

// BlockAttention with materialized scores in fp64 for inputs of any dtype. Results are rounded once
// to fp32 at the end (fp64 inputs: they stay in fp64). It is used in tests, and to separate an
// error of a kernel from an error of a strategy.

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
