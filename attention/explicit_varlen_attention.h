#ifndef MOONRING_ATTENTION_EXPLICIT_VARLEN_ATTENTION_H_
#define MOONRING_ATTENTION_EXPLICIT_VARLEN_ATTENTION_H_

// VarlenAttention with its scores written out, for GPUs: what no fused kernel there computes in
// fp32 and fp64, as fp64 and a softcap (16 bits have strip_varlen_attention.h). In AccumulateType,
// by few and large operators: a batch of pairs of rows is one matrix product for all heads.
//
//   small tiles   many are one batch, filled up to the longest of it: of those that are at most
//                 twice as long as another, so that no more than a part of the products is of rows
//                 that are not there
//   large tiles   are cut into pieces, each of which is a batch; those without a seen pair are left
//                 out, the results merged (softmax_merge.h)
//
// The query heads of a kv head are rows of one product beside its keys, which are not repeated for
// them. Memory beyond the results: a batch's scores, three times in the backward, which settle how
// large it may be (score_bytes for all three); the inputs in AccumulateType; a batch's rows so
// gathered. Operators: some 25 a batch forward and 35 backward, of any number of heads and tiles.
// explicit_block_attention.h has the same for one tile on a CPU, in pieces that fit a core's cache.

#include "attention/varlen_attention.h"

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

#endif  // MOONRING_ATTENTION_EXPLICIT_VARLEN_ATTENTION_H_
