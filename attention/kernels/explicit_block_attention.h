#ifndef MOONRING_ATTENTION_KERNELS_EXPLICIT_BLOCK_ATTENTION_H_
#define MOONRING_ATTENTION_KERNELS_EXPLICIT_BLOCK_ATTENTION_H_

// BlockAttention with materialized scores, by matrix products and elementwise operators. It is used
// on CPUs for inputs that the fused kernel does not support, such as fp64. GPUs use
// explicit_varlen_attention.h.
//
// A tile is cut into pieces of at most 512 x 512 query-key pairs. Fully masked pieces are skipped,
// and the results of the others are merged (softmax_merge.h). In the forward, the query heads of a
// kv head form a batch of matrix products that shares the keys: one product for each head, so that
// a head's bits do not depend on the other heads of the call. In the backward, these query heads
// are rows of one product. Keys are never repeated. Memory beyond the results: the scores of one
// piece for the query heads of one kv head (three such tensors in the backward), and copies of
// these heads' inputs where a copy is needed.

#include "attention/kernels/block_attention.h"

namespace moonring::attention {

class ExplicitBlockAttention final : public BlockAttention {
 public:
  absl::string_view name() const override { return "explicit"; }

 private:
  PartialAttention RunForward(const Tile& tile) const override;
  TileGradients RunBackward(const Tile& tile, const at::Tensor& dout_MHD, const at::Tensor& out_MHD,
                            const at::Tensor& lse_MH) const override;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_EXPLICIT_BLOCK_ATTENTION_H_
