#ifndef MOONRING_MODEL_BLOCKS_TRANSFORMER_BLOCK_H_
#define MOONRING_MODEL_BLOCKS_TRANSFORMER_BLOCK_H_

// One decoder block, a pure function of its linear maps, hidden states, positions and attention:
//
//   h  = x + r norm_b(Wo attention(rotary(norm_q(Wq n)), rotary(norm_k(Wk n)), Wv n)),    n =
//      norm_a(x)
//   x' = h + r norm_d(mlp(m)),                                                             m =
//       norm_c(h)
//   mlp(m) = Wdown (act(Wgate m) * Wup m), or a mixture of such (experts.h)
//
// Which of the norms there are, and whether Wq, Wk, Wv (Wgate, Wup) are one map, is said by the
// weights that are there: Llama has norm_a and norm_c, OLMo 2 norm_b and norm_d, Gemma and
// GLM-4-0414 all four.
//
// x, h, x' [T, D] are the residual stream, in the wide dtype (fp32; fp64 where matmuls are in fp64)
// or, where the rule says so, in bf16: then each sum is rounded, and so is the gradient that flows
// back along it. Linear layers and attention run in the matmul dtype; norms and rotary embedding
// compute in the wide one. Differentiable
// in x and in each weight that requires it. What a linear map is besides its matrix (an adapter,
// say) is projection.h's business: the block applies it and no more.
// T may be 0: attention is still called, as its collectives need every rank.
//
// Everything but attention is a function of rows. What follows attention, whose intermediate
// features are most of a block's memory, may run in tiles of rows (row_tiles.h): then a run under
// autograd keeps x and attention's own, and makes the rest again, tile by tile, in its backward.

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "attention/attention.h"
#include "model/blocks/block_run.h"
#include "model/blocks/experts.h"
#include "model/blocks/layers.h"
#include "model/blocks/projection.h"
#include "model/blocks/rotary.h"
#include "model/config/block_weights.h"
#include "model/config/config.h"
#include "model/config/family.h"

namespace moonring::model {

// What a block does with its weights.
struct BlockRule {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  double rms_norm_eps = 0.0;
  at::ScalarType matmul_dtype = at::kFloat;
  std::optional<at::ScalarType> stream_dtype;  // absent: the wide one of the matmul's
  attention::ScoreRule scores;
  double residual_scale = 1.0;
  bool norm_adds_one = false;
  HeadNorm head_norm = HeadNorm::kNone;
  QkvRows qkv_rows = QkvRows::kStacked;
  Activation activation = Activation::kSilu;
  ExpertRule experts;
};

BlockRule BlockRuleOf(const ModelConfig& config, int64_t layer, at::ScalarType matmul_dtype,
                      std::optional<at::ScalarType> stream_dtype = std::nullopt);

// What the rows of a forward are, beside their hidden states.
struct BlockRows {
  const Rotary* rotary = nullptr;  // null: this layer turns nothing
  RouterGroups router_groups;
};

struct BlockResult {
  at::Tensor hidden_TD;
  RouterTally tally;  // undefined tensors where there is no router, or nothing is to be tallied
};

// The maps of a block by place (block_weights.h). A norm is a map's weight; one that is not there
// is undefined.
class BlockMaps {
 public:
  // Weights at their places, without adapters; where their gradients are added up, or nothing.
  explicit BlockMaps(absl::Span<const at::Tensor> weights, absl::Span<const WeightSum> sums = {});

  bool Has(int place) const { return maps_[place].weight_OI.defined(); }
  const at::Tensor& Norm(int place) const { return maps_[place].weight_OI; }
  const Projection& Map(int place) const { return maps_[place]; }
  Projection& Map(int place) { return maps_[place]; }
  ExpertMaps Experts(int64_t count) const;

  // Those of what follows attention, alone.
  BlockMaps AfterAttention() const;
  // For a tile of the rows: what an adapter drops goes by whose row it is.
  BlockMaps OfRows(int64_t begin, int64_t count) const;
  // Every tensor that is there, in an order of its own; and the same maps of others in that order.
  std::vector<at::Tensor> Tensors() const;
  BlockMaps Of(absl::Span<const at::Tensor> tensors) const;

 private:
  template <class Maps, class F>
  static void ForEachTensor(Maps& maps, const F& fn);

  std::vector<Projection> maps_;
};

// The dtype in which the block takes a weight: norms in the wide one, the rest in the matmul's.
at::ScalarType WeightDtype(int place, at::ScalarType matmul_dtype);

BlockResult TransformerBlock(const BlockRule& rule, const BlockMaps& maps,
                             const at::Tensor& hidden_TD, const BlockRows& rows,
                             attention::PlannedAttention& attention, const BlockRun& run);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_TRANSFORMER_BLOCK_H_
