#ifndef MOONRING_ATTENTION_KERNELS_STRIP_VARLEN_ATTENTION_H_
#define MOONRING_ATTENTION_KERNELS_STRIP_VARLEN_ATTENTION_H_

// VarlenAttention for 16-bit inputs with materialized scores, for inputs that flash attention does
// not support on GPUs: softcaps and head dims above 256. A strip of queries is multiplied by all
// keys that it attends to (strip_plan.h), so that products are few, large and on tensor cores:
//
//   forward    x = q k^T;  p, sum, lse = softmax of the strip (strip_scores.h);  out = p v / sum
//   backward   x = q k^T, y = dout v^T;  p, ds;  dv += p^T dout, dq = scale ds k,
//              dk += scale ds^T q
//
// p: softmax weights, before the division by their sum in the forward; ds: the scores' gradients,
// computed from p and y. Products have 16-bit factors (p and ds are rounded to 16 bits as in flash
// attention) and fp32 sums; scores, softmax, lse, sums, out and gradients are fp32. The query heads
// of a kv head are rows of one product with its keys, which are not repeated. All kinds of tiles
// are supported, including bands. A key or value with NaN or infinity also affects queries that do
// not attend to it but are in the same product, since 0 times NaN is NaN.
//
// Memory beyond the results, for one strip: the scores, 4 bytes each in the forward and 8 in the
// backward (their limit score_bytes bounds the length of a strip); copies of the strip's rows of q
// and dout where query heads share a kv head; the strip's out or dq in fp32. Bytes moved per score
// by the kernel: 12 forward, 22 backward. Operators per strip: about 10 forward and 15 backward,
// for any number of heads and tiles.

#include "attention/kernels/varlen_attention.h"

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

#endif  // MOONRING_ATTENTION_KERNELS_STRIP_VARLEN_ATTENTION_H_
