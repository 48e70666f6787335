#ifndef MOONRING_MODEL_BLOCKS_ATTENTION_MIXER_H_
#define MOONRING_MODEL_BLOCKS_ATTENTION_MIXER_H_

// Softmax attention as a block's mixer, the one part of it that lets tokens see each other:
//
//   heads = attention(rotary(norm_q(Wq n)), rotary(norm_k(Wk n)), norm_v(Wv n)),   n = norm_a(x)
//
// or, where they are gated, that times sigmoid(Wg n), whose rows are in Wq's map: a head's query,
// then its gate (Qwen3-Next, Qwen3.5).
//
// A family's queries may grow with their position besides (rotary.h).
//
// norm_v, where there is one, divides by the root mean square alone. Keys and values may come of
// one map (Wv = Wk), or be those of an earlier block.
//
// Which norms there are, whether Wq, Wk, Wv are one map, and whether the softmax has sinks
// (attention/sink.h), is said by the weights that are there. How the sequence is spread over ranks
// is `attention`'s business.

#include <ATen/core/Tensor.h>

#include "attention/attention.h"
#include "model/blocks/block_maps.h"
#include "model/blocks/block_rule.h"
#include "model/blocks/rotary.h"

namespace moonring::model {

// As attention takes them: normed and turned.
struct KeyValue {
  at::Tensor k_TKD, v_TKD;
};

struct AttentionMix {
  at::Tensor heads_TC;  // what the heads give, side by side: [T, H head_dim] in the matmul dtype
  KeyValue keys;        // those that were seen
};

// Of the stream's rows hidden_TD. `rotary` null: nothing turns; `kept` null: nothing is kept
// (block_run.h); `keys` null: the block's own. Collective; throws what attention throws.
AttentionMix MixByAttention(const BlockRule& rule, const BlockMaps& maps,
                            const at::Tensor& hidden_TD, const Rotary* rotary, const KeyValue* keys,
                            attention::PlannedAttention& attention, attention::KeptAttention* kept);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_ATTENTION_MIXER_H_
