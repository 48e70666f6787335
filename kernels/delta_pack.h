#ifndef MOONRING_KERNELS_DELTA_PACK_H_
#define MOONRING_KERNELS_DELTA_PACK_H_

// Packs the inputs of the gated delta rule, rows of a packed stream, into the chunks that its
// matmuls use (mixers/rule/delta_chunks.h), and unpacks gradients of chunks into rows of the
// stream, each in one pass (operators moonring::delta_pack, moonring::delta_pack_rows and
// moonring::delta_unpack). There is one decay g (a logarithm) for each token and head.
//
//   pack      q, k    each row divided by sqrt(sum x^2 + eps) if normalize; q times scale
//             G_i = g_1 + ... + g_i in a chunk of C tokens;  from_start = exp(G);
//             to_end = exp(G_C - G)
//             start_q = q from_start;  start_k = k from_start;  end_k = k to_end
//   unpack    d = scale (sum over a key head's value heads);  if rows were normalized, with x from
//             the stream:  r = 1 / sqrt(sum x^2 + eps),  d <- r (d - r x (d . r x))
//
// x is a row of q or k, d its gradient. T tokens, Hk key heads of d_k channels, H value heads of
// d_v channels, N chunks.
//
// Stream: q, k [T, Hk, d_k], v [T, H, d_v], all in fp32, bf16 or fp16 alike, of any strides as long
// as each head is contiguous; g, beta [T, H] in fp32. Chunks: [N, H, C, ...] in fp32, with C 64 and
// d_k at most 256; a key head's rows are repeated H / Hk times. token_of_slot int64 [N C]: the
// row's token, or -1 for a padding row, which is zeros. The chunks may cover only some of the
// stream's tokens: the other tokens are not read or written. Memory traffic: each tensor named
// above once; a key head is read from memory once. Sums have a fixed order.

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kDeltaPack[] = "moonring::delta_pack";

struct DeltaRows {
  at::Tensor q_THK;  // undefined: q and start_q are not computed
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

// Packs rows [T, H, X] unchanged, for any X, into fp32 [N, H, C, X].
at::Tensor DeltaPackRows(const at::Tensor& rows_THX, const at::Tensor& token_of_slot);

// Unpacks gradients into `rows_THX`, whose number of heads divides that of `packed_NHCX`. `x_THX`:
// the rows that were normalized; undefined if no rows were normalized.
void DeltaUnpack(const at::Tensor& packed_NHCX, const at::Tensor& token_of_slot,
                 const at::Tensor& x_THX, double scale, double eps, at::Tensor rows_THX);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_DELTA_PACK_H_
