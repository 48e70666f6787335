#ifndef MOONRING_ATTENTION_KERNELS_VARLEN_TILE_RUNNER_H_
#define MOONRING_ATTENTION_KERNELS_VARLEN_TILE_RUNNER_H_

// TileRunner by ragged calls: all full tiles of a plan in one kernel call, all causal ones in
// another, all window-edge ones in another, or all bands in one (varlen_rounds.h).
//
// A plan whose queries are all covered by one call has nothing to merge: the kernel's results and
// gradients are final, in the kernel's dtype. This is so for whole documents on one rank, for
// Ulysses and, with bands, for all-gather. Only gradients of keys that several tiles of a call
// share are added (in zigzag, the two ranges of a document).
//
// All heads are in one call too, unless kv heads have different numbers of query heads
// (head_exchange.h, where heads do not divide evenly): then there is a call for each run of kv
// heads with the same number.
//
// The backward of a 16-bit kernel needs 8 D bytes (the greater of D and Dv) beyond its results for
// each row of a query head: sums of dq in fp32; dk and dv of each query head in its dtype. Where
// that is more than `workspace_bytes`, kv heads are processed in slices that are small enough, or
// one at a time. No slice reads another's heads, so that the gradients of a slice may overwrite its
// inputs when it is done.
//
// The rows of a call are a view where they are contiguous and in order, as for the causal tiles of
// whole spans; else they are gathered by index. Memory beyond inputs and results, for one call: its
// gathered rows and its results, where keys count once for each query range that attends to them.

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
