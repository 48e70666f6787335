#ifndef MOONRING_MODEL_BLOCKS_ATTENTION_MIXER_H_
#define MOONRING_MODEL_BLOCKS_ATTENTION_MIXER_H_

// Softmax attention as a block's mixer (the step of a block in which tokens interact). With x the
// residual stream and norm_a the block's input norm:
//
//   heads = attention(rotary(norm_q(Wq n)), rotary(norm_k(Wk n)), norm_v(Wv n)),   n = norm_a(x)
//
// If the heads are gated (Qwen3-Next, Qwen3.5), attention's result is multiplied by sigmoid(Wg n).
// Wq and Wg are then one matrix, with the rows of each head's query followed by the rows of its
// gate.
//
// In some families queries are also scaled by a function of their position (rotary.h).
//
// norm_v, if present, divides by the root mean square and has no weight. Keys and values may come
// from one matrix (Wv = Wk), or may be those of an earlier block.
//
// The weights that are present decide which norms exist, whether Wq, Wk, Wv are fused in one
// matrix, and whether the softmax has sinks (attention/kernels/sink.h). The argument `attention`
// communicates with the other ranks if a sequence is split over ranks.

#include <ATen/core/Tensor.h>

#include "attention/attention.h"
#include "model/blocks/block_maps.h"
#include "model/blocks/block_rule.h"
#include "model/blocks/rotary.h"

namespace moonring::model {

// Keys and values as attention receives them: after norm and rotary embedding.
struct KeyValue {
  at::Tensor k_TKD, v_TKD;
};

struct AttentionMix {
  at::Tensor heads_TC;  // the heads' outputs, concatenated: [T, H head_dim] in the matmul dtype
  KeyValue keys;        // the keys and values that attention used
};

// Runs attention on hidden_TD, rows of the residual stream. `rotary` null: no rotary embedding.
// `keys`: keys and values of an earlier block; null: the block computes its own. `kept` receives
// attention's result for reuse in recomputation; null: it is not kept. Collective; exceptions of
// `attention` propagate.
AttentionMix MixByAttention(const BlockRule& rule, const BlockMaps& maps,
                            const at::Tensor& hidden_TD, const Rotary* rotary, const KeyValue* keys,
                            attention::PlannedAttention& attention, attention::KeptAttention* kept);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_ATTENTION_MIXER_H_
