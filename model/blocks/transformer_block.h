#ifndef MOONRING_MODEL_BLOCKS_TRANSFORMER_BLOCK_H_
#define MOONRING_MODEL_BLOCKS_TRANSFORMER_BLOCK_H_

// One decoder block, a pure function of its linear maps, hidden states, positions and attention:
//
//   h  = x + r norm_b(Wo mixer(norm_a(x)))
//   x' = h + r norm_d(mlp(m)),              m = norm_c(h)
//   mlp(m) = Wdown (act(Wgate m) * Wup m), or a mixture of such (experts.h), or both in parallel:
//            norm_1(Wdown (act(Wgate m) * Wup m)) + norm_2(mixture(norm_3(h))), whose router's
//            input is norm_4(h) (Gemma 4), or Wdown (act(Wgate m) * Wup m) + mixture(m) (Granite
//            4). Without a gate it is Wdown act(Wgate m) (Nemotron-H)
//
// A layer may lack the mixer and its norms (then h = x), or the MLP and its norms (then x' = h).
//
// If the layer has a second input p (LayerInputRule, transformer.h) and a scale s, its output is
//
//   x'' = s (x' + norm_e(Wmap (act(Wsmall x') * p)))
//
// The mixer is the step in which tokens interact (config/mixer.h): softmax attention, a gated delta
// rule, a state space model or a short convolution. The files of model/mixers have the equations;
// each mixer has its own Wo. The weights that are present decide which norms exist and whether
// Wgate and Wup are one map: Llama has norm_a and norm_c, OLMo 2 norm_b and norm_d, Gemma and
// GLM-4-0414 all four.
//
// x, h, x' [T, D] are the residual stream, in fp32 (fp64 if matmuls are in fp64), or in bf16 if
// BlockRule::stream_dtype says so: then each sum is rounded to bf16, and so is the gradient of the
// stream. Linear layers and attention run in the matmul dtype; norms and rotary embedding compute
// in fp32 (fp64 for fp64). Differentiable in x and in each weight that requires a gradient.
// Adapters on linear maps are handled by projection.h. T may be 0: the mixer is still called,
// because its collectives need every rank.
//
// Everything but the mixer acts on each row independently. The MLP's intermediate features are most
// of a block's memory, so everything after the mixer may run in tiles of rows (row_tiles.h):
// autograd then keeps x and the mixer's tensors, and the backward recomputes the rest tile by tile.
// Tiles are not used with expert parallelism, because ranks have different numbers of rows and
// their exchanges would not match tile by tile.

#include <vector>

#include <ATen/core/Tensor.h>

#include "attention/attention.h"
#include "model/blocks/block_maps.h"
#include "model/blocks/block_rows.h"
#include "model/blocks/block_rule.h"
#include "model/blocks/block_run.h"
#include "model/blocks/experts.h"
#include "model/blocks/layers.h"
#include "model/blocks/projection.h"
#include "model/blocks/rotary.h"

namespace moonring::model {

struct BlockResult {
  at::Tensor hidden_TD;
  KeyValue keys;      // undefined if no later block uses them
  RouterTally tally;  // undefined tensors if there is no router or no statistics are requested
};

BlockResult TransformerBlock(const BlockRule& rule, const BlockMaps& maps,
                             const at::Tensor& hidden_TD, const BlockRows& rows,
                             attention::PlannedAttention& attention, const BlockRun& run);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_TRANSFORMER_BLOCK_H_
