#ifndef MOONRING_ATTENTION_CPU_BLOCK_ATTENTION_H_
#define MOONRING_ATTENTION_CPU_BLOCK_ATTENTION_H_

// BlockAttention by LibTorch's flash kernel for CPUs, which never holds M x N scores: O(M D) memory beyond the results. It knows no
// softcap: with one, scores are written out (explicit_block_attention.h).
//
// Bit-exact in the forward pass under any split by heads (measured, and asserted by the tests), for any head dim. bf16 is computed in
// fp32: the kernel's own bf16 backward adds into bf16 gradients block by block, and its error grows with the length.
// A tile at a window's edge is a causal one with its rows in reverse, on both sides: so it is computed, without a mask.

#include "attention/block_attention.h"
#include "attention/explicit_block_attention.h"

namespace moonring::attention {

class CpuBlockAttention final : public BlockAttention {
 public:
  absl::string_view name() const override { return "cpu"; }

 private:
  PartialAttention RunForward(const Tile& tile) const override;
  TileGradients RunBackward(const Tile& tile, const at::Tensor& dout_MHD, const at::Tensor& out_MHD, const at::Tensor& lse_MH) const override;

  ExplicitBlockAttention explicit_;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_CPU_BLOCK_ATTENTION_H_
