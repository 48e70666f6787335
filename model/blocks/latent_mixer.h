#ifndef MOONRING_MODEL_BLOCKS_LATENT_MIXER_H_
#define MOONRING_MODEL_BLOCKS_LATENT_MIXER_H_

// Softmax attention as a block's mixer, with keys and values computed from a low-dimensional latent
// (multi-head latent attention: DeepSeek-V2, arXiv:2405.04434, section 2.1; DeepSeek-V3, Kimi-K2,
// Moonlight). With n = norm_a(x), for each of H heads
//
//   q             = Wuq norm_q(Wdq n), or Wq n                [T, H, Dp + Dr]
//   [c | r]       = Wdkv n                                    [T, R + Dr]
//   [p | v]       = Wukv norm_c(c)                            [T, H, Dp + Dv]
//   k             = [p | r]                                   r is shared by all heads
//   heads         = attention(q, k, v)                        [T, H Dv]
//
// Rotary embedding is applied to the last Dr features of q and k, either to pairs of neighbours or
// to the two halves. A permutation of features that q and k share does not change q k^T, so the
// features are not reordered.
//
// Attention receives whole heads, H keys and values of Dp + Dr and Dv features, as in Transformers:
// ranks exchange data of that size, not of the latent's. Attention's backward keeps q, k and v; the
// two latents are kept in addition.

#include <ATen/core/Tensor.h>

#include "attention/attention.h"
#include "model/blocks/block_maps.h"
#include "model/blocks/block_rule.h"
#include "model/blocks/rotary.h"

namespace moonring::model {

// Returns the heads' outputs, concatenated: [T, H Dv] in the matmul dtype, from the stream's rows
// hidden_TD. `rotary` null: no rotary embedding; `kept` null: nothing is kept (block_run.h).
// Collective; throws what attention throws.
at::Tensor MixByLatent(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& hidden_TD,
                       const Rotary* rotary, attention::PlannedAttention& attention,
                       attention::KeptAttention* kept);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_LATENT_MIXER_H_
