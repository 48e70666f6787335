#ifndef MOONRING_ATTENTION_TILE_RUNNER_H_
#define MOONRING_ATTENTION_TILE_RUNNER_H_

// Runs the tiles of a plan: the interface between what strategies decide and the kernels of a
// device.

#include <vector>

#include <ATen/core/Tensor.h>

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

  // The grid that its plans are to be made on.
  virtual TileGrid grid() const = 0;

  // The dtype in which it computes on inputs of a dtype, in which it wants them. Results are in
  // AccumulateType.
  virtual at::ScalarType ComputeType(at::ScalarType input) const = 0;

  // T = plan.query_rows, S = plan.key_rows. Merges every tile into the state of its query rows.
  virtual void Forward(const RunHeads& heads, const TilePlan& plan, const QueryKeyValue& inputs,
                       const SoftmaxState& state) const = 0;

  // Adds every tile's gradients to `gradients`, shaped as the inputs.
  virtual void Backward(const RunHeads& heads, const TilePlan& plan, const QueryKeyValue& inputs,
                        const QueryResults& results, const QueryKeyValue& gradients) const = 0;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_TILE_RUNNER_H_
