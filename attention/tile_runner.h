#ifndef MOONRING_ATTENTION_TILE_RUNNER_H_
#define MOONRING_ATTENTION_TILE_RUNNER_H_

// Runs the tiles of a plan over the intra-op threads of the calling thread (at::get_num_threads()).
//
// A kernel call never threads by itself: its results would depend on the number of threads. Instead
//   forward   a task is one query block and one group of heads; bit-exact for any number of threads and any split of
//             the heads into groups;
//   backward  tasks of the same document and kv head add into the same dk, dv. Each such chain is one task, which adds
//             in the plan's order; a chain that is more than its share of the work is dealt out over several lanes
//             with a dk, dv of their own, added in a fixed order at the end. So the gradients are the same in every
//             run, and move in the last bits with the number of threads.
//
// Memory beyond inputs and results: the tiles in work; backward, dk and dv of at most 2 lanes a thread.

#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "attention/block_attention.h"
#include "attention/head_split.h"
#include "attention/softmax_merge.h"
#include "attention/tile.h"

namespace moonring::attention {

// What the backward takes of the query rows, after all plans that met them were merged.
struct QueryResults {
  at::Tensor dout_THD;
  at::Tensor out_THD;
  at::Tensor lse_TH;
};

class TileRunner {
 public:
  TileRunner(const BlockAttention& block, std::vector<HeadGroup> groups, double scale) : block_(block), groups_(std::move(groups)), scale_(scale) {}

  // Inputs are the plan's buffers in AccumulateType: T = query_rows, S = key_rows.

  // Merges every tile into the state of its query rows.
  void Forward(const TilePlan& plan, const QueryKeyValue& inputs, const SoftmaxState& state) const;

  // Adds every tile's gradients to `gradients`, shaped as the inputs.
  void Backward(const TilePlan& plan, const QueryKeyValue& inputs, const QueryResults& results, const QueryKeyValue& gradients) const;

 private:
  Tile TileOf(const QueryKeyValue& inputs, const RowRange& queries, const KeyTile& tile, const HeadGroup& group) const;

  const BlockAttention& block_;
  std::vector<HeadGroup> groups_;
  double scale_;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_TILE_RUNNER_H_
