#ifndef MOONRING_ATTENTION_EXPLICIT_BLOCK_ATTENTION_H_
#define MOONRING_ATTENTION_EXPLICIT_BLOCK_ATTENTION_H_

// BlockAttention with its scores written out, by matrix products and elementwise operators: for
// what no fused kernel computes, as fp64, on CPUs. GPUs have explicit_varlen_attention.h.
//
// A tile is cut into pieces of at most 512 x 512 query-key pairs, those without a seen pair left
// out, whose results are merged (softmax_merge.h). Forward, the query heads of a kv head are a
// batch that shares the keys, each with a product of its own, so that a head gives the same bits
// whatever heads are beside it. Backward, they are rows of one product; no key is repeated for
// them. Memory beyond the results: the scores of a piece for the query heads of one kv head, once
// forward and three times backward, and the inputs of these heads where they are copied.

#include "attention/block_attention.h"

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

#endif  // MOONRING_ATTENTION_EXPLICIT_BLOCK_ATTENTION_H_
