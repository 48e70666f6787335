#ifndef MOONRING_ATTENTION_TILE_RUNNER_H_
#define MOONRING_ATTENTION_TILE_RUNNER_H_

// Runs the tiles of a plan: the interface between what strategies decide and the kernels of a
// device.

#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include "attention/block_attention.h"
#include "attention/head_split.h"
#include "attention/softmax_merge.h"
#include "attention/tile.h"
#include "attention/tile_plan.h"

namespace moonring::attention {

// The heads of a call, and which query heads read which kv head.
struct RunHeads {
  std::vector<HeadGroup> groups;
  ScoreFunction score;
};

// What the backward takes of the query rows, after all plans that met them were merged.
struct QueryResults {
  at::Tensor dout_THD;
  at::Tensor out_THD;
  at::Tensor lse_TH;
};

class TileRunner {
 public:
  virtual ~TileRunner() = default;

  // The grid that its plans are to be made on; for inputs of a dtype and head dim (the greater of
  // the keys' and the values') it may be another.
  virtual TileGrid grid() const = 0;
  virtual TileGrid GridFor(at::ScalarType input, int64_t head_dim,
                           const ScoreFunction& score) const {
    return grid();
  }

  // The dtype in which it computes on inputs of a dtype, in which it wants them. Results are in
  // AccumulateType.
  virtual at::ScalarType ComputeType(at::ScalarType input) const = 0;

  // T = plan.query_rows, S = plan.key_rows. Merges every tile into the state of its query rows.
  virtual void Forward(const RunHeads& heads, const TilePlan& plan, const QueryKeyValue& inputs,
                       const SoftmaxState& state) const = 0;

  // Adds every tile's gradients to `gradients`, shaped as the inputs.
  virtual void Backward(const RunHeads& heads, const TilePlan& plan, const QueryKeyValue& inputs,
                        const QueryResults& results, const QueryKeyValue& gradients) const = 0;

  // Whether one call of a kernel gives the results of all the plan's queries, so that nothing is to
  // be merged. Then these two may stand for the two above, if the queries meet no other keys: what
  // they give is the kernel's own, out, dq, dk and dv in the inputs' dtype or in AccumulateType.
  // `freed`: memory of inputs, all their heads, over which their gradients may be written; each may
  // be undefined.
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

#endif  // MOONRING_ATTENTION_TILE_RUNNER_H_
