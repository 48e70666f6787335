#ifndef MOONRING_MODEL_BLOCKS_LATENT_MIXER_H_
#define MOONRING_MODEL_BLOCKS_LATENT_MIXER_H_

// Softmax attention as a block's mixer whose keys and values come of a latent of few features
// (multi-head latent attention: DeepSeek-V2, arXiv:2405.04434, section 2.1; DeepSeek-V3, Kimi-K2,
// Moonlight). With n = norm_a(x), for each of H heads
//
//   q             = Wuq norm_q(Wdq n), or Wq n                [T, H, Dp + Dr]
//   [c | r]       = Wdkv n                                    [T, R + Dr]
//   [p | v]       = Wukv norm_c(c)                            [T, H, Dp + Dv]
//   k             = [p | r]                                   r is one for all heads
//   heads         = attention(q, k, v)                        [T, H Dv]
//
// where the last Dr features of q and k turn. Both turn as neighbours or as halves; a permutation
// of features that q and k share leaves their product, so nothing is laid out anew.
//
// Attention is given whole heads, H keys and values of Dp + Dr and Dv features, as Transformers
// gives them: what travels between ranks is of that size, not of the latent's. Kept for attention's
// backward are q, k and v; beside them the two latents.

#include <ATen/core/Tensor.h>

#include "attention/attention.h"
#include "model/blocks/block_maps.h"
#include "model/blocks/block_rule.h"
#include "model/blocks/rotary.h"

namespace moonring::model {

// What the heads give, side by side: [T, H Dv] in the matmul dtype, of the stream's rows hidden_TD.
// `rotary` null: nothing turns; `kept` null: nothing is kept (block_run.h). Collective; throws what
// attention throws.
at::Tensor MixByLatent(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& hidden_TD,
                       const Rotary* rotary, attention::PlannedAttention& attention,
                       attention::KeptAttention* kept);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_LATENT_MIXER_H_
