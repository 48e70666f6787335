#ifndef MOONRING_ATTENTION_STRIP_VARLEN_ATTENTION_H_
#define MOONRING_ATTENTION_STRIP_VARLEN_ATTENTION_H_

// VarlenAttention with its scores written out, in 16 bits: for GPUs what flash attention has no
// kernel for there, softcaps and heads of more than 256. Strips of queries beside all keys that
// they see (strip_plan.h), so that the products are few, large and on tensor cores:
//
//   forward    x = q k^T;  p, sum, lse = softmax of the strip (strip_scores.h);  out = p v / sum
//   backward   x = q k^T, y = dout v^T;  p, ds;  dv += p^T dout, dq = scale ds k, dk += scale ds^T
//   q
//
// Products are of 16-bit numbers, p and ds rounded to these as flash attention does, and added up
// in fp32; scores, softmax, lse, sums, out and gradients are fp32. The query heads of a kv head are
// rows of one product beside its keys, which are not repeated for them. It knows every kind of
// tile, bands among them. NaN or infinity in a key or value also reaches rows that do not
// see it but are in the same product: 0 times it is NaN.
//
// Memory beyond the results, for a strip: scores, 4 bytes each forward and 8 backward, which settle
// how long a strip is (score_bytes for all); its rows of q and dout where heads share keys; out or
// dq of it in fp32. Bytes a score by the kernel: 12 forward, 22 backward. Operators: some 10 a
// strip forward and 15 backward, of any number of heads and tiles.

#include "attention/varlen_attention.h"

namespace moonring::attention {

class StripVarlenAttention final : public VarlenAttention {
 public:
  explicit StripVarlenAttention(int64_t score_bytes = int64_t{512} << 20)
      : score_bytes_(score_bytes) {}

  absl::string_view name() const override { return "strips"; }
  bool TakesBands(at::ScalarType type, int64_t head_dim,
                  const ScoreFunction& score) const override {
    return true;
  }

 private:
  PartialAttention RunForward(const VarlenTiles& tiles) const override;
  TileGradients RunBackward(const VarlenTiles& tiles, const at::Tensor& dout_MHD,
                            const at::Tensor& out_MHD, const at::Tensor& lse_MH) const override;

  int64_t score_bytes_;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_STRIP_VARLEN_ATTENTION_H_
