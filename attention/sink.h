#ifndef MOONRING_ATTENTION_SINK_H_
#define MOONRING_ATTENTION_SINK_H_

// A sink: one more key that every query of a head sees, whose score is a number that is learnt and
// whose value is zero (gpt-oss; Xiao et al. 2023, arXiv:2309.17453, section 3.3). It takes a share
// of the softmax and gives nothing.
//
//   lse' = log(e^lse + e^s),   out' = out e^(lse - lse')
//
// The sink meets the rows after the keys' parts are merged, so no strategy knows of it. With out'
// and lse' in their places the backward of attention is as ever (P = e^(score - lse'), delta =
// dout . out'), and
//
//   ds_h = - sum_t e^(s_h - lse'_th) delta_th,   delta_th = dout_th . out'_th
//
// Shapes: sink s [H]; out, dout [M, H, D]; lse [M, H]. A rank has the part of ds of its own rows
// and heads.

#include <ATen/core/Tensor.h>

#include "attention/block_attention.h"
#include "attention/tile_runner.h"

namespace moonring::attention {

// In place; rows that see no key give out 0 and lse' = s.
void AddSink(const at::Tensor& sink_H, const PartialAttention& whole);

// ds [H] in fp32 (fp64 for fp64), from `results` as AddSink left them.
at::Tensor SinkGradient(const at::Tensor& sink_H, const QueryResults& results);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_SINK_H_
