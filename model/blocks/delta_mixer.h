#ifndef MOONRING_MODEL_BLOCKS_DELTA_MIXER_H_
#define MOONRING_MODEL_BLOCKS_DELTA_MIXER_H_

// Linear attention as a block's mixer: a gated delta rule after a short convolution (Yang et al.,
// arXiv:2412.06464). Used by Qwen3-Next, Qwen3.5 and OLMo hybrid; and, with one decay per channel,
// by Kimi Linear (arXiv:2510.26692). With n = norm_a(x), H value heads of d_v features, Hk key
// heads of d_k features that the value heads share, and one decay g and one update weight beta per
// value head:
//
//   [q | k | v] = silu(convolution([Wq n | Wk n | Wv n]))       causal, depthwise
//   g    = -exp(A) softplus(Wa n + c)                           A, c [H]: the decay's logarithm
//   beta = s sigmoid(Wb n)                                      s 1, or 2 (negative eigenvalues)
//   o    = delta rule(q / |q|, k / |k|, v, g, beta) / sqrt(d_k)
//   heads = RmsNorm(o; w) silu(Wz n)                            head by head; w, never 1 + w
//
// With one decay per channel, Wa n + c and g have a value for each channel of each head's key, [T,
// H, d_k]; A stays one per head. In that variant Wa and Wz may be low-rank products of two maps,
// and sigmoid may replace silu.
//
// The weights that are present decide which of Wq, Wk, Wv, Wz, Wa, Wb, and which convolution taps,
// are fused in one matrix. The fused matrix of queries, keys, values and gates has, for each key
// head in turn, the rows of the head's query, its key, the values of the value heads that share it,
// and their gates. The fused matrix of Wb and Wa has, for each key head in turn, the rows of its
// value heads' Wb, then of their Wa.
//
// g, beta, the norm and the delta rule are computed in fp32, or in fp64 if matmuls are in fp64
// (mixers/rule/delta_inputs.h). The argument `mixing` communicates with the other ranks if a
// sequence is split over ranks.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "mixers/over_ranks/planned_mixing.h"
#include "model/blocks/block_maps.h"
#include "model/blocks/block_rule.h"

namespace moonring::model {

// Returns the heads' outputs, concatenated: [T, H d_v] in the matmul dtype, computed from
// hidden_TD, rows of the residual stream. Collective; exceptions of `mixing` propagate.
at::Tensor MixByDeltaRule(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& hidden_TD,
                          mixers::PlannedMixing& mixing);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_DELTA_MIXER_H_
