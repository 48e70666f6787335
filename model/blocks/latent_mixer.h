#ifndef MOONRING_MODEL_BLOCKS_LATENT_MIXER_H_
#define MOONRING_MODEL_BLOCKS_LATENT_MIXER_H_

// Softmax attention as a block's mixer, with keys and values computed from a low-dimensional latent
// (multi-head latent attention: DeepSeek-V2, arXiv:2405.04434, section 2.1; DeepSeek-V3, Kimi-K2,
// Moonlight). With n = norm_a(x), for each of H heads with Dp + Dr features of queries and keys
// (the last Dr are rotated) and Dv of values, and a latent c of R features:
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
// As in Transformers, attention receives the full keys and values of H heads (Dp + Dr and Dv
// features), so ranks exchange these, not the smaller latent. The backward keeps q, k, v and the
// two latents.

#include <ATen/core/Tensor.h>

#include "attention/attention.h"
#include "model/blocks/block_maps.h"
#include "model/blocks/block_rule.h"
#include "model/blocks/rotary.h"

namespace moonring::model {

// Returns the heads' outputs, concatenated: [T, H Dv] in the matmul dtype, computed from hidden_TD,
// rows of the residual stream. `rotary` null: no rotary embedding. `kept` receives attention's
// result for reuse in recomputation; null: it is not kept. Collective; exceptions of `attention`
// propagate.
at::Tensor MixByLatent(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& hidden_TD,
                       const Rotary* rotary, attention::PlannedAttention& attention,
                       attention::KeptAttention* kept);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_LATENT_MIXER_H_
