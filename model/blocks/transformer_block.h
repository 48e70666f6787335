#ifndef MOONRING_MODEL_BLOCKS_TRANSFORMER_BLOCK_H_
#define MOONRING_MODEL_BLOCKS_TRANSFORMER_BLOCK_H_

// One decoder block, a pure function of its linear maps, hidden states, positions and attention:
//
//   h  = x + r norm_b(Wo mixer(norm_a(x)))
//   x' = h + r norm_d(mlp(m)),              m = norm_c(h)
//   mlp(m) = Wdown (act(Wgate m) * Wup m), or a mixture of such (experts.h), or both side by side:
//            norm_1(Wdown (act(Wgate m) * Wup m)) + norm_2(mixture(norm_3(h))), whose router sees
//            norm_4(h) (Gemma 4), or Wdown (act(Wgate m) * Wup m) + mixture(m) (Granite 4). Without
//            a gate it is Wdown act(Wgate m) (Nemotron-H)
//
// either of which a layer may lack, with its norms (BlockPart): h = x without a mixer, x' = h
// without an MLP;
//
// and where the layer has an input of its own, p (transformer.h), and a scale s,
//
//   x'' = s (x' + norm_e(Wmap (act(Wsmall x') * p)))
//
// The mixer lets tokens see each other: softmax attention (attention_mixer.h; latent_mixer.h where
// there are a latent's maps), a gated delta rule (delta_mixer.h), a state space
// (state_space_mixer.h) or a short convolution (convolution_mixer.h), whose equations are there;
// each has a Wo of its own. Which of the norms there are, and whether Wgate and Wup are one map, is
// said by the weights that are there: Llama has norm_a and norm_c, OLMo 2 norm_b and norm_d, Gemma
// and GLM-4-0414 all four.
//
// x, h, x' [T, D] are the residual stream, in the wide dtype (fp32; fp64 where matmuls are in fp64)
// or, where the rule says so, in bf16: then each sum is rounded, and so is the gradient that flows
// back along it. Linear layers and attention run in the matmul dtype; norms and rotary embedding
// compute in the wide one. Differentiable
// in x and in each weight that requires it. What a linear map is besides its matrix (an adapter,
// say) is projection.h's business: the block applies it and no more.
// T may be 0: a mixer is still called, as its collectives need every rank.
//
// Everything but the mixer is a function of rows. What follows it, whose intermediate features are
// most of a block's memory, may run in tiles of rows (row_tiles.h): then a run under autograd keeps
// x and the mixer's own, and makes the rest again, tile by tile, in its backward. Not where experts
// lie with several ranks: these have different numbers of rows, and would not meet tile by tile.

#include <vector>

#include <ATen/core/Tensor.h>

#include "attention/attention.h"
#include "comm/bin_exchange.h"
#include "mixers/planned_mixing.h"
#include "model/blocks/attention_mixer.h"
#include "model/blocks/block_maps.h"
#include "model/blocks/block_rule.h"
#include "model/blocks/block_run.h"
#include "model/blocks/experts.h"
#include "model/blocks/layers.h"
#include "model/blocks/projection.h"
#include "model/blocks/rotary.h"

namespace moonring::model {

// What the rows of a forward are, beside their hidden states.
struct BlockRows {
  const Rotary* rotary = nullptr;           // null: this layer turns nothing
  mixers::PlannedMixing* mixing = nullptr;  // wanted where there is a mixer that is not attention
  RouterGroups router_groups;
  at::Tensor layer_input_TP;       // undefined: this layer has none
  const KeyValue* keys = nullptr;  // an earlier block's; null: this layer makes its own
  const comm::BinExchange* expert_ranks = nullptr;  // null: all experts are here
};

struct BlockResult {
  at::Tensor hidden_TD;
  KeyValue keys;      // undefined where no later block takes them
  RouterTally tally;  // undefined tensors where there is no router, or nothing is to be tallied
};

BlockResult TransformerBlock(const BlockRule& rule, const BlockMaps& maps,
                             const at::Tensor& hidden_TD, const BlockRows& rows,
                             attention::PlannedAttention& attention, const BlockRun& run);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_TRANSFORMER_BLOCK_H_
