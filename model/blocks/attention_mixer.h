#ifndef MOONRING_MODEL_BLOCKS_ATTENTION_MIXER_H_
#define MOONRING_MODEL_BLOCKS_ATTENTION_MIXER_H_

// Softmax attention as a block's mixer, the one step of a block in which tokens interact:
//
//   heads = attention(rotary(norm_q(Wq n)), rotary(norm_k(Wk n)), norm_v(Wv n)),   n = norm_a(x)
//
// or, if the heads are gated, that times sigmoid(Wg n). The rows of Wg are stored in Wq's map: a
// head's query, then its gate (Qwen3-Next, Qwen3.5).
//
// In some families queries are also scaled by a function of their position (rotary.h).
//
// norm_v, if present, divides by the root mean square and has no weight. Keys and values may come
// from one map (Wv = Wk), or be those of an earlier block.
//
// The weights that are present decide which norms exist, whether Wq, Wk, Wv are one map, and
// whether the softmax has sinks (attention/kernels/sink.h). `attention` handles how the sequence is
// spread over ranks.

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
  KeyValue keys;        // the keys and values that were used
};

// Mixes the stream's rows hidden_TD. `rotary` null: no rotary embedding; `kept` null: nothing is
// kept (block_run.h); `keys` null: the block computes its own. Collective; throws what attention
// throws.
AttentionMix MixByAttention(const BlockRule& rule, const BlockMaps& maps,
                            const at::Tensor& hidden_TD, const Rotary* rotary, const KeyValue* keys,
                            attention::PlannedAttention& attention, attention::KeptAttention* kept);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_ATTENTION_MIXER_H_
