#ifndef MOONRING_ATTENTION_KERNELS_TILE_RUNNER_H_
#define MOONRING_ATTENTION_KERNELS_TILE_RUNNER_H_

// TileRunner: runs the tiles of a plan. The interface between strategies and a device's kernels.

#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include "attention/kernels/block_attention.h"
#include "attention/kernels/head_split.h"
#include "attention/kernels/softmax_merge.h"
#include "attention/kernels/tile.h"
#include "attention/kernels/tile_plan.h"

namespace moonring::attention {

// The heads of a call, and which query heads read which kv head.
struct RunHeads {
  std::vector<HeadGroup> groups;
  ScoreFunction score;
};

// The backward's inputs for the query rows. out and lse are the final ones, after the results of
// all plans were merged.
struct QueryResults {
  at::Tensor dout_THD;
  at::Tensor out_THD;
  at::Tensor lse_TH;
};

class TileRunner {
 public:
  virtual ~TileRunner() = default;

  // The grid (tile_plan.h) that plans for this runner must use. GridFor may return another grid for
  // certain dtypes and head dims. `head_dim`: the greater of the keys' and the values' head dims.
  virtual TileGrid grid() const = 0;
  virtual TileGrid GridFor(at::ScalarType input, int64_t head_dim,
                           const ScoreFunction& score) const {
    return grid();
  }

  // The dtype to which inputs of dtype `input` must be converted before Forward and Backward.
  // Results are in AccumulateType.
  virtual at::ScalarType ComputeType(at::ScalarType input) const = 0;

  // Computes every tile and merges its result into `state`, which has a row for each query. In the
  // shapes, T = plan.query_rows and S = plan.key_rows.
  virtual void Forward(const RunHeads& heads, const TilePlan& plan, const QueryKeyValue& inputs,
                       const SoftmaxState& state) const = 0;

  // Adds every tile's gradients to `gradients`, which have the inputs' shapes.
  virtual void Backward(const RunHeads& heads, const TilePlan& plan, const QueryKeyValue& inputs,
                        const QueryResults& results, const QueryKeyValue& gradients) const = 0;

  // Whether one kernel call computes the results of all the plan's queries, so that no partial
  // results are merged. If so, and if the queries attend to no keys outside the plan, ForwardAtOnce
  // and BackwardAtOnce may be called instead of Forward and Backward. They return the kernel's
  // tensors: out, dq, dk and dv are in the inputs' dtype or in AccumulateType. `freed`: tensors of
  // the inputs' shapes (with all heads) in whose memory the gradients may be stored; each may be
  // undefined.
  virtual bool IsOneCall(const TilePlan& plan, const at::Device& device) const { return false; }
  virtual PartialAttention ForwardAtOnce(const RunHeads& heads, const TilePlan& plan,
                                         const QueryKeyValue& inputs) const {
    TORCH_INTERNAL_ASSERT(false, "a runner of one tile after another");
  }
  virtual QueryKeyValue BackwardAtOnce(const RunHeads& heads, const TilePlan& plan,
                                       const QueryKeyValue& inputs, const QueryResults& results,
                                       const QueryKeyValue& freed) const {
    TORCH_INTERNAL_ASSERT(false, "a runner of one tile after another");
  }
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_TILE_RUNNER_H_
