#ifndef MOONRING_ATTENTION_VARLEN_TILE_RUNNER_H_
#define MOONRING_ATTENTION_VARLEN_TILE_RUNNER_H_

// TileRunner by ragged calls: all full tiles of a plan in one kernel call, all causal ones in one,
// all at a window's edge in one, or all bands in one (varlen_rounds.h).
//
// A plan whose queries are covered by one call, as that of whole documents on one rank, of Ulysses
// and, by bands, of all-gather, has nothing to merge: what the kernel gives is the result, and its
// gradients the gradients, in its own dtype. Only keys that several tiles of a call share are added
// up (in zigzag, the two ranges of a document).
//
// Heads go in one call too, unless they are not equally many for each kv head (head_exchange.h,
// where heads do not divide): then a call for each run of kv heads that have equally many.
//
// The backward of a 16-bit kernel takes 8 D bytes (the greater of D and Dv) beside its results for
// each row of a query head (sums of dq in fp32; dk and dv of each query head in its dtype). Where
// that is more than `workspace_bytes` kv heads go in slices, as many as bring it below that, or one
// at a time. No slice reads another's heads, so that the gradients of one may take the place of its
// inputs when it is done.
//
// Rows that a call takes are a view where they are one run in order, as the causal tiles of whole
// spans are; else they are gathered by index. Memory beyond inputs and results, for a call: its
// rows so gathered and its results, where keys count once for each query range that meets them.

#include <memory>
#include <utility>

#include "attention/tile_runner.h"
#include "attention/varlen_attention.h"

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

#endif  // MOONRING_ATTENTION_VARLEN_TILE_RUNNER_H_
