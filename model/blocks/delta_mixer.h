#ifndef MOONRING_MODEL_BLOCKS_DELTA_MIXER_H_
#define MOONRING_MODEL_BLOCKS_DELTA_MIXER_H_

// Linear attention as a block's mixer: a gated delta rule after a short convolution (Yang et al.,
// arXiv:2412.06464; Qwen3-Next, Qwen3.5, OLMo hybrid; with one decay per channel Kimi Linear, Kimi
// team, arXiv:2510.26692). With n = norm_a(x), H value heads of d_v features, Hk key heads of d_k
// features that the value heads share, and one decay g and one update weight beta per value head:
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
// The weights that are present decide which of Wq, Wk, Wv, Wz, Wa, Wb, and which taps, are fused in
// one map. The fused map of queries, keys, values and gate orders its rows by key head: its query,
// its key, its value heads' values, their gates. The fused map of Wb and Wa is ordered likewise:
// its value heads' Wb, their Wa.
//
// g, beta, the norm and the delta rule are in the wide dtype (fp32, or fp64 for fp64)
// (mixers/rule/delta_inputs.h). `mixing` handles how the sequence is spread over ranks.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "mixers/over_ranks/planned_mixing.h"
#include "model/blocks/block_maps.h"
#include "model/blocks/block_rule.h"

namespace moonring::model {

// Returns the heads' outputs, concatenated: [T, H d_v] in the matmul dtype, from the stream's rows
// hidden_TD. Collective; throws what mixing throws.
at::Tensor MixByDeltaRule(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& hidden_TD,
                          mixers::PlannedMixing& mixing);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_DELTA_MIXER_H_
