#ifndef MOONRING_ATTENTION_STRATEGY_CONTEXT_ATTENTION_H_
#define MOONRING_ATTENTION_STRATEGY_CONTEXT_ATTENTION_H_

// Runs a context plan (context_plan.h): ring attention and all-gather attention. While the tiles of
// one step are computed, the keys and values of the next step are being transferred.
//
// A context rank is a rank's index along the context axis. On context rank r of P, in a ring, turn
// s uses the keys that rank r - s (modulo P) owns (ring_plan.h):
//
//   Forward(q, k, v):              # the local rows
//     ForEachTurn, compute(s):
//       merge attention(q, k_s, v_s) into the running softmax
//     out, lse = the running softmax, normalized
//
//   Backward(dout, out, lse, q, k, v):
//     ForEachTurn, compute(s):       # keys are sent once more, their gradients are sent back
//       compute dk_s, dv_s from the tiles with the global out and lse, and add to dq
//       AddReturnedGradients(s - 1)  # waits, and adds to the local dk, dv
//       ReturnGradients(s)           # sends dk_s, dv_s to rank r - s, receives from rank r + s;
//                                    # s = 0: nothing, dk_0, dv_0 are the local dk, dv
//     AddReturnedGradients(P - 1)
//
//   ForEachTurn:
//     for s = 0 .. P - 1:
//       WaitForKeys(s)               # s = 0: nothing, k_0, v_0 are the local k, v
//       StartDueTransfers, which calls
//         StartTransfer(s + 1)       # sends k, v to rank r + s + 1, receives from rank r - s - 1
//       compute(s)
//       free k_s, v_s
//
// Only the rows that the receiver's queries attend to are sent. In a double ring a rank forwards
// some of the keys that it receives, and their gradients return along the same path.
//
// A turn is one step of the plan for one slice of heads (in the ring above there is one slice). A
// slice is all heads, or a few heads where the plan is sliced (ContextPlan::sliced). The turns of a
// call are the steps of the first slice, then those of the next slice, and so on. The transfer of a
// turn's keys starts `lead` turns earlier (receives are posted first). The keys are freed when the
// turn is done and all transfers that forward them have started.
//
// Where the plan has one step and this step is one kernel call, there are no partial results to
// merge: the kernel's result is returned in the kernel's dtype. Gradients of received keys are
// still summed at their owners.
//
// Partial results, sums of gradients and gradients in transfer are in AccumulateType; keys in
// transfer are in the inputs' dtype. Collective: all context ranks make the same calls in the same
// order. Throws base::StatusError where a peer fails.

#include <memory>
#include <optional>
#include <vector>

#include "attention/kernels/block_attention.h"
#include "attention/kernels/tile_runner.h"
#include "attention/kernels/varlen_rounds.h"
#include "attention/strategy/context_plan.h"
#include "comm/communicator.h"

namespace moonring::attention {

// The number of slices into which the plan divides the kv heads.
int64_t SlicesOf(const ContextPlan& plan, int64_t kv_heads);

class ContextAttention {
 public:
  // `ranks[c]`: the rank within the group of context rank c.
  ContextAttention(ContextPlan plan, std::vector<int> ranks,
                   std::shared_ptr<comm::Communicator> group,
                   std::shared_ptr<const TileRunner> runner)
      : plan_(std::move(plan)),
        ranks_(std::move(ranks)),
        group_(std::move(group)),
        runner_(std::move(runner)) {}

  // `rows`: this context rank's q [T, H, D], k and v [T, Hk, D] in the inputs' dtype. Returns out
  // [T, H, D] and lse [T, H]. out is in AccumulateType, or in the kernel's dtype if IsOneCall
  // returns true.
  PartialAttention Forward(const RunHeads& heads, const QueryKeyValue& rows) const;

  // Adds the gradients of the rows to `sums`, which have the rows' shapes and are in
  // AccumulateType. dout may have any dtype.
  void Backward(const RunHeads& heads, const QueryKeyValue& rows, const QueryResults& results,
                const QueryKeyValue& sums) const;

  // Whether one kernel call computes everything, so that no partial results are merged; the same in
  // forward and backward. If so, call BackwardAtOnce instead of Backward: each gradient is in the
  // kernel's dtype or in AccumulateType, and may be stored in the memory of `freed`
  // (TileRunner::BackwardAtOnce).
  bool IsOneCall(const RunHeads& heads, const QueryKeyValue& rows) const;
  QueryKeyValue BackwardAtOnce(const RunHeads& heads, const QueryKeyValue& rows,
                               const QueryResults& results, const QueryKeyValue& freed) const;

 private:
  ContextPlan plan_;
  std::vector<int> ranks_;
  std::shared_ptr<comm::Communicator> group_;
  std::shared_ptr<const TileRunner> runner_;
  mutable std::optional<Rows> of_all_;  // rows used of an all-gather's result; shared by all layers
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_STRATEGY_CONTEXT_ATTENTION_H_
