#ifndef MOONRING_ATTENTION_THREADED_TILE_RUNNER_H_
#define MOONRING_ATTENTION_THREADED_TILE_RUNNER_H_

// TileRunner tile by tile, over the intra-op threads of the calling thread (at::get_num_threads()).
//
// A kernel call never threads by itself: its results would depend on the number of threads. Instead
//   forward   a task is one query block and one group of heads; bit-exact for any number of threads
//             and any split of the heads into groups;
//   backward  tasks of the same document and kv head add into the same dk, dv. Each such chain is
//             one task, which adds in the plan's order; a chain that is more than its share of the
//             work is dealt out over several lanes with a dk, dv of their own, added in a fixed
//             order at the end. So the gradients are the same in every run, and move in the last
//             bits with the number of threads.
//
// Memory beyond inputs and results: the tiles in work; backward, dk and dv of at most 2 lanes a
// thread.

#include <memory>
#include <utility>

#include "attention/block_attention.h"
#include "attention/tile_runner.h"

namespace moonring::attention {

class ThreadedTileRunner final : public TileRunner {
 public:
  explicit ThreadedTileRunner(std::shared_ptr<const BlockAttention> block)
      : block_(std::move(block)) {}

  TileGrid grid() const override { return TileGrid::kBlocks; }
  at::ScalarType ComputeType(at::ScalarType input) const override {
    return block_->ComputeType(input);
  }
  void Forward(const RunHeads& heads, const TilePlan& plan, const QueryKeyValue& inputs,
               const SoftmaxState& state) const override;
  void Backward(const RunHeads& heads, const TilePlan& plan, const QueryKeyValue& inputs,
                const QueryResults& results, const QueryKeyValue& gradients) const override;

 private:
  std::shared_ptr<const BlockAttention> block_;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_THREADED_TILE_RUNNER_H_
