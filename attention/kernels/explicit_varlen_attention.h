#ifndef MOONRING_ATTENTION_KERNELS_EXPLICIT_VARLEN_ATTENTION_H_
#define MOONRING_ATTENTION_KERNELS_EXPLICIT_VARLEN_ATTENTION_H_

// VarlenAttention with materialized scores for GPUs, for fp64 inputs and for fp32 inputs with a
// softcap, which no fused kernel supports (16-bit inputs: strip_varlen_attention.h). It computes in
// AccumulateType with a few large operators: a batch of tiles is one matrix product for all heads.
//
//   small tiles   are batched, padded to the longest tile of the batch. Lengths within a batch
//                 differ by a factor of 2 at most, so that padding is a bounded share of the
//                 products
//   large tiles   are cut into pieces, each of which is a batch; fully masked pieces are skipped
//                 and the results are merged (softmax_merge.h)
//
// The query heads of a kv head are rows of one product with its keys, which are not repeated.
// Memory beyond the results: a batch's scores (three times in the backward), whose limit
// score_bytes bounds the size of a batch; the inputs in AccumulateType; a batch's gathered rows.
// Operators per batch: about 25 forward and 35 backward, for any number of heads and tiles.
// explicit_block_attention.h is the counterpart for one tile on a CPU, in pieces that fit a core's
// cache.

#include "attention/kernels/varlen_attention.h"

namespace moonring::attention {

class ExplicitVarlenAttention final : public VarlenAttention {
 public:
  explicit ExplicitVarlenAttention(int64_t score_bytes = int64_t{512} << 20)
      : score_bytes_(score_bytes) {}

  absl::string_view name() const override { return "explicit"; }

 private:
  PartialAttention RunForward(const VarlenTiles& tiles) const override;
  TileGradients RunBackward(const VarlenTiles& tiles, const at::Tensor& dout_MHD,
                            const at::Tensor& out_MHD, const at::Tensor& lse_MH) const override;

  int64_t score_bytes_;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_EXPLICIT_VARLEN_ATTENTION_H_
