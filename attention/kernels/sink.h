#ifndef MOONRING_ATTENTION_KERNELS_SINK_H_
#define MOONRING_ATTENTION_KERNELS_SINK_H_

// Attention sink: one extra key per head that every query attends to, whose score is a trainable
// number and whose value is zero (gpt-oss; Xiao et al. 2023, arXiv:2309.17453, section 3.3). It
// takes a share of the softmax and adds nothing to the output.
//
//   lse' = log(e^lse + e^s),   out' = out e^(lse - lse')
//
// The sink is applied after the partial results of the keys have been merged, so strategies do not
// depend on it. With out' and lse' in place of out and lse the backward of attention is unchanged
// (P = e^(score - lse'), delta = dout . out'), and
//
//   ds_h = - sum_t e^(s_h - lse'_th) delta_th,   delta_th = dout_th . out'_th
//
// Shapes, for M rows and H heads of D channels: sink s [H]; out, dout [M, H, D]; lse [M, H]. Each
// rank computes ds for its own rows and heads.

#include <ATen/core/Tensor.h>

#include "attention/kernels/block_attention.h"
#include "attention/kernels/tile_runner.h"

namespace moonring::attention {

// Applies the sink to the merged result `whole` in place. Rows without keys get out 0 and lse' = s.
void AddSink(const at::Tensor& sink_H, const PartialAttention& whole);

// Returns ds [H] in fp32 (fp64 for fp64). `results` must have out and lse with the sink applied
// (AddSink).
at::Tensor SinkGradient(const at::Tensor& sink_H, const QueryResults& results);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_SINK_H_
