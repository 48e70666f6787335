#ifndef MOONRING_KERNELS_DELTA_PACK_H_
#define MOONRING_KERNELS_DELTA_PACK_H_

// The gated delta rule's inputs, rows of a packed stream, as the chunks that its products take
// (mixers/delta_chunks.h), and gradients of chunks as rows of the stream, in one pass each
// (operators moonring::delta_pack, moonring::delta_pack_rows and moonring::delta_unpack). The decay
// is one a head.
//
//   pack      q, k    each row over sqrt(sum x^2 + eps) where they are to be normed, q times scale
//             G_i = g_1 + ... + g_i;  from_start = exp(G);  to_end = exp(G_C - G)
//             start_q = q from_start;  start_k = k from_start;  end_k = k to_end
//   unpack    d = scale (sum over a key head's value heads);  where rows were normed, x being the
//             stream's:  r = 1 / sqrt(sum x^2 + eps),  d <- r (d - r x (d . r x))
//
// Stream: q, k [T, Hk, d_k], v [T, H, d_v] in fp32, bf16 or fp16, all the same, of any strides but
// for whole heads; g, beta [T, H] in fp32. Chunks: [N, H, C, ...] in fp32, C 64, d_k at most 256; a
// key head's rows stand H / Hk times. token_of_slot int64 [N C]: the row's token, or -1 of a filled
// row, which is zeros. Chunks may have some of the stream's tokens: others are not read or written.
// Bytes: what is named, once each; a key head is read from memory once. Sums have a fixed order.

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kDeltaPack[] = "moonring::delta_pack";

struct DeltaRows {
  at::Tensor q_THK;  // undefined: no output is wanted
  at::Tensor k_THK, v_THV, g_TH, beta_TH;
};

struct DeltaRowsRule {
  double scale = 1;
  bool normalize = false;
  double eps = 0;
};

struct PackedDelta {
  at::Tensor q, start_q;                   // undefined without q
  at::Tensor k, start_k, end_k;            // [N, H, C, d_k]
  at::Tensor v;                            // [N, H, C, d_v]
  at::Tensor g, beta, from_start, to_end;  // [N, H, C, 1]
};

PackedDelta DeltaPack(const DeltaRows& rows, const at::Tensor& token_of_slot,
                      const DeltaRowsRule& rule);

// Rows [T, H, X] alone, of any X, in fp32: [N, H, C, X].
at::Tensor DeltaPackRows(const at::Tensor& rows_THX, const at::Tensor& token_of_slot);

// Into `rows_THX`, whose H is that of `packed_NHCX` or a part of it. `x_THX`: what was normed;
// undefined: nothing was.
void DeltaUnpack(const at::Tensor& packed_NHCX, const at::Tensor& token_of_slot,
                 const at::Tensor& x_THX, double scale, double eps, at::Tensor rows_THX);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_DELTA_PACK_H_
