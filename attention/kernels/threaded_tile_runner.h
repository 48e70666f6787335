#ifndef MOONRING_ATTENTION_KERNELS_THREADED_TILE_RUNNER_H_
#define MOONRING_ATTENTION_KERNELS_THREADED_TILE_RUNNER_H_

// TileRunner that calls a kernel for each tile, in parallel on the calling thread's intra-op
// threads (at::get_num_threads()).
//
// A kernel call is single-threaded, since its results would otherwise depend on the number of
// threads:
//
//   forward   a task is one query block and one group of heads; bit-exact for any number of threads
//             and any split of the heads into groups;
//   backward  query blocks of the same document and kv head add to the same dk, dv. Together they
//             are one task, a chain, which adds in the plan's order. A chain with more than a
//             thread's share of the work is distributed over several lanes, each with its own dk
//             and dv, which are added in a fixed order at the end. So gradients are the same in
//             every run, but their last bits depend on the number of threads.
//
// Memory beyond inputs and results: the tiles that are being computed; in the backward, dk and dv
// of at most 2 lanes per thread.

#include <memory>
#include <utility>

#include "attention/kernels/block_attention.h"
#include "attention/kernels/tile_runner.h"

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

#endif  // MOONRING_ATTENTION_KERNELS_THREADED_TILE_RUNNER_H_
