#ifndef MOONRING_ATTENTION_KERNELS_VARLEN_TILE_RUNNER_H_
#define MOONRING_ATTENTION_KERNELS_VARLEN_TILE_RUNNER_H_

// TileRunner by ragged (varlen) kernel calls: one call for all full tiles of a plan, one for all
// causal tiles, one for all window-edge tiles; or one call for all bands (kinds: tile.h, calls:
// varlen_rounds.h).
//
// Where one call computes a whole plan, no partial results are merged: the kernel's results and
// gradients are final, in the kernel's dtype. This is the case for whole documents on one rank, for
// ulysses and, with bands, for all-gather. Gradients are summed only for keys that several tiles of
// a call share (in zigzag, a rank has two ranges of a document).
//
// A call computes all heads, unless kv heads have different numbers of query heads, which occurs
// where the heads do not divide evenly over the ranks (head_exchange.h). Then there is one call for
// each run of adjacent kv heads with the same number of query heads.
//
// The backward of a 16-bit kernel needs 8 D bytes (D: the greater of the two head dims) beyond its
// results for each row of each query head: the sums of dq in fp32, and dk and dv for each query
// head in 16 bits. Where that is more than `workspace_bytes`, kv heads are processed in slices that
// are small enough, or one at a time. A slice does not read the heads of other slices, so the
// gradients of a slice may overwrite its inputs when the slice is done.
//
// The rows of a call are a view where they are contiguous and in order, as for the causal tiles of
// whole spans; else they are gathered by index. Memory beyond inputs and results, for one call: its
// gathered rows and its results; a key's row exists once for each query range that attends to it.

#include <memory>
#include <utility>

#include "attention/kernels/tile_runner.h"
#include "attention/kernels/varlen_attention.h"

namespace moonring::attention {

class VarlenTileRunner final : public TileRunner {
 public:
  explicit VarlenTileRunner(std::shared_ptr<const VarlenAttention> varlen,
                            int64_t workspace_bytes = int64_t{1} << 30)
      : varlen_(std::move(varlen)), workspace_bytes_(workspace_bytes) {}

  TileGrid grid() const override { return TileGrid::kSpans; }
  TileGrid GridFor(at::ScalarType input, int64_t head_dim,
                   const ScoreFunction& score) const override;
  at::ScalarType ComputeType(at::ScalarType input) const override { return input; }
  void Forward(const RunHeads& heads, const TilePlan& plan, const QueryKeyValue& inputs,
               const SoftmaxState& state) const override;
  void Backward(const RunHeads& heads, const TilePlan& plan, const QueryKeyValue& inputs,
                const QueryResults& results, const QueryKeyValue& gradients) const override;
  bool IsOneCall(const TilePlan& plan, const at::Device& device) const override;
  PartialAttention ForwardAtOnce(const RunHeads& heads, const TilePlan& plan,
                                 const QueryKeyValue& inputs) const override;
  QueryKeyValue BackwardAtOnce(const RunHeads& heads, const TilePlan& plan,
                               const QueryKeyValue& inputs, const QueryResults& results,
                               const QueryKeyValue& freed) const override;

 private:
  std::shared_ptr<const VarlenAttention> varlen_;
  int64_t workspace_bytes_;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_VARLEN_TILE_RUNNER_H_
