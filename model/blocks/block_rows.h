#ifndef MOONRING_MODEL_BLOCKS_BLOCK_ROWS_H_
#define MOONRING_MODEL_BLOCKS_BLOCK_ROWS_H_

// What a block receives with its hidden states, and what its mixer returns.

#include <ATen/core/Tensor.h>

#include "comm/bin_exchange.h"
#include "mixers/over_ranks/planned_mixing.h"
#include "model/blocks/experts.h"
#include "model/blocks/rotary.h"

namespace moonring::model {

// Keys and values as attention receives them: after norm and rotary embedding.
struct KeyValue {
  at::Tensor k_TKD, v_TKD;
};

// Properties of a forward's rows, in addition to their hidden states.
struct BlockRows {
  const Rotary* rotary = nullptr;           // null: no rotary embedding in this layer
  mixers::PlannedMixing* mixing = nullptr;  // required by mixers that keep a state (MixerCache)
  RouterGroups router_groups;
  at::Tensor layer_input_TP;       // undefined: this layer has none
  const KeyValue* keys = nullptr;  // of an earlier block; null: this layer computes its own
  const comm::BinExchange* expert_ranks = nullptr;  // null: all experts are local
};

// The result of a mixer (Mixer::run).
struct MixerOutput {
  at::Tensor heads_TC;  // the input of the output map: [T, C] in the matmul dtype
  KeyValue keys;        // the keys and values that attention used; undefined: there are none
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_BLOCK_ROWS_H_
