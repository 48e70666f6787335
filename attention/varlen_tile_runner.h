#ifndef MOONRING_ATTENTION_VARLEN_TILE_RUNNER_H_
#define MOONRING_ATTENTION_VARLEN_TILE_RUNNER_H_

// TileRunner by ragged calls: all full tiles of a plan in one kernel call, all causal ones in one,
// all at a window's edge in one.
//
//   full     the full tiles of one query range are one tile: its keys are gathered from all their
//            ranges, in any order
//   heads    in one call too, unless they are not equally many for each kv head (head_exchange.h,
//            where heads do not divide): then a call for each run of kv heads that have equally
//            many
//   again    query ranges that overlap without being equal, as keys in pieces make them at a
//            window's edge, go to further calls: in one call no query row occurs twice, so its
//            results are merged at once
//
// Gradients of keys, which do occur in several tiles of a call, are added in waves without a
// repeated row, in a fixed order: the runner adds nothing nondeterministic to its kernels.
//
// Rows that a call takes are a view where they are one run in order, as the causal tiles of whole
// spans are; else they are gathered by index. Memory beyond inputs and results, for a call: its
// rows so gathered and its results, where keys count once for each query range that meets them (in
// zigzag, two ranges of a document). Host: O(rows) for the indices.

#include <memory>
#include <utility>

#include "attention/tile_runner.h"
#include "attention/varlen_attention.h"

namespace moonring::attention {

class VarlenTileRunner final : public TileRunner {
 public:
  explicit VarlenTileRunner(std::shared_ptr<const VarlenAttention> varlen)
      : varlen_(std::move(varlen)) {}

  TileGrid grid() const override { return TileGrid::kSpans; }
  at::ScalarType ComputeType(at::ScalarType input) const override { return input; }
  void Forward(const RunHeads& heads, const TilePlan& plan, const QueryKeyValue& inputs,
               const SoftmaxState& state) const override;
  void Backward(const RunHeads& heads, const TilePlan& plan, const QueryKeyValue& inputs,
                const QueryResults& results, const QueryKeyValue& gradients) const override;

 private:
  std::shared_ptr<const VarlenAttention> varlen_;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_VARLEN_TILE_RUNNER_H_
