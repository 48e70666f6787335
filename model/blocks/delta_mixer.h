#ifndef MOONRING_MODEL_BLOCKS_DELTA_MIXER_H_
#define MOONRING_MODEL_BLOCKS_DELTA_MIXER_H_

// Linear attention as a block's mixer: a gated delta rule behind a short convolution (Yang et al.,
// arXiv:2412.06464; Qwen3-Next, Qwen3.5, OLMo hybrid; with a decay by channel Kimi Linear, Kimi
// team, arXiv:2510.26692). With n = norm_a(x), a decay and an update's weight for each of H value
// heads, whose d_v features Hk key heads of d_k share:
//
//   [q | k | v] = silu(convolution([Wq n | Wk n | Wv n]))       causal, depthwise
//   g    = -exp(A) softplus(Wa n + c)                           A, c [H]: the decay's logarithm
//   beta = s sigmoid(Wb n)                                      s 1, or 2 (negative eigenvalues)
//   o    = delta rule(q / |q|, k / |k|, v, g, beta) / sqrt(d_k)
//   heads = RmsNorm(o; w) silu(Wz n)                            head by head; w, never 1 + w
//
// By channel Wa n + c has a feature for each channel of each head's key, and so has g
// [T, H, d_k]; A stays one a head. There Wa and Wz may be two maps each, through a few features,
// and sigmoid may stand for silu.
//
// Which of Wq, Wk, Wv, Wz, Wa, Wb, and which taps, are one map is said by the weights that are
// there. In the one of queries, keys, values and gate, and in that of Wb and Wa, rows lie key head
// by key head: its query, its key, its value heads' values, their gates; its value heads' Wb, their
// Wa.
//
// g, beta and the norm are in the wide dtype, and so is the rule (mixers/delta_inputs.h). How the
// sequence is spread over ranks is `mixing`'s business.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "mixers/planned_mixing.h"
#include "model/blocks/block_maps.h"
#include "model/blocks/block_rule.h"

namespace moonring::model {

// What the heads give, side by side: [T, H d_v] in the matmul dtype, of the stream's rows
// hidden_TD. Collective; throws what mixing throws.
at::Tensor MixByDeltaRule(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& hidden_TD,
                          mixers::PlannedMixing& mixing);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_DELTA_MIXER_H_
