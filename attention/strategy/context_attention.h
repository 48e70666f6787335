#ifndef MOONRING_ATTENTION_STRATEGY_CONTEXT_ATTENTION_H_
#define MOONRING_ATTENTION_STRATEGY_CONTEXT_ATTENTION_H_

// Runs a context plan (context_plan.h): ring attention and all-gather attention. While the tiles of
// one step are computed, the keys and values of the next step are being transferred.
//
// On context rank r of P, where step s has the keys that rank r - s owns (ring_plan.h), modulo P:
//
//   forward(q, k, v):                      # the local rows; k_0, v_0 are the local k, v
//     for s = 0 .. P - 1:
//       wait for k_s, v_s                  # nothing to wait for at s = 0
//       start: send k, v to rank r + s + 1, receive k_(s+1), v_(s+1) from r - s - 1  # s < P - 1
//       merge attention(q, k_s, v_s) into the running softmax; free k_s, v_s
//     out, lse = the running softmax, normalized
//   backward(dout, out, lse, q, k, v):     # keys travel again, their gradients travel back
//     for s = 0 .. P - 1, and after the loop wait for and add the last gradients:
//       wait for k_s, v_s; start the transfer of k_(s+1), v_(s+1) as in the forward
//       compute dk_s, dv_s from the tiles with the global out and lse, and add to dq
//       wait for the gradients that were started in step s - 1 and add them to the local dk, dv
//       start: send dk_s, dv_s to rank r - s, receive from rank r + s   # s = 0: added locally
//
// Only the rows that the receiver's queries attend to are sent. In a double ring some received keys
// are sent on, and the gradients return along the same way.
//
// A turn is one step for one slice of heads: all heads at once, or a few at a time where the plan
// is sliced. The turns of a call are the steps of the first slice, then those of the next slice,
// and so on. A turn's transfer starts `lead` turns before it (receives are posted first). Its keys
// are freed when the turn is done and everything that is sent on from them has been passed to a
// transfer.
//
// In a plan of one step that is one call of the kernel there is nothing to merge: the kernel's
// result is returned in the kernel's dtype. Gradients of keys that travelled are still summed.
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

// The number of slices that the kv heads are processed in.
int64_t SlicesOf(const ContextPlan& plan, int64_t kv_heads);

class ContextAttention {
 public:
  // `ranks`: the group's rank of each context rank.
  ContextAttention(ContextPlan plan, std::vector<int> ranks,
                   std::shared_ptr<comm::Communicator> group,
                   std::shared_ptr<const TileRunner> runner)
      : plan_(std::move(plan)),
        ranks_(std::move(ranks)),
        group_(std::move(group)),
        runner_(std::move(runner)) {}

  // The rows of this context rank, q [T, H, D], k and v [T, Hk, D] in the input's dtype -> out [T,
  // H, D] and lse [T, H]; out is in AccumulateType, or in the kernel's dtype where IsOneCall.
  PartialAttention Forward(const RunHeads& heads, const QueryKeyValue& rows) const;

  // Adds the gradients of the rows to `sums`, which have the rows' shapes and are in
  // AccumulateType. dout may have any dtype.
  void Backward(const RunHeads& heads, const QueryKeyValue& rows, const QueryResults& results,
                const QueryKeyValue& sums) const;

  // Whether one kernel call computes everything, so that there is nothing to merge; the same in
  // forward and backward. If so, BackwardAtOnce is the backward: each gradient is in the kernel's
  // dtype or in AccumulateType, and may be stored in `freed` (TileRunner::BackwardAtOnce).
  bool IsOneCall(const RunHeads& heads, const QueryKeyValue& rows) const;
  QueryKeyValue BackwardAtOnce(const RunHeads& heads, const QueryKeyValue& rows,
                               const QueryResults& results, const QueryKeyValue& freed) const;

 private:
  ContextPlan plan_;
  std::vector<int> ranks_;
  std::shared_ptr<comm::Communicator> group_;
  std::shared_ptr<const TileRunner> runner_;
  mutable std::optional<Rows> of_all_;  // for a plan that uses an all-gather; shared by all layers
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_STRATEGY_CONTEXT_ATTENTION_H_
