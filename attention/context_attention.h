#ifndef MOONRING_ATTENTION_CONTEXT_ATTENTION_H_
#define MOONRING_ATTENTION_CONTEXT_ATTENTION_H_

// Runs a context plan: the transfers of its steps and, while these are under way, the tiles of the
// steps whose keys are there.
//
// A turn is one step for one slice of heads: all heads at once, or a few at a time where the plan
// is sliced. The turns of a call are the steps of the first slice, then those of the next. A turn's
// transfer is started `lead` turns before it (its receives first), and its keys are let go of when
// it is done and what is sent on of them has left.
//
// A plan of one step that is one call of the kernel merges nothing: what the kernel gives is handed
// on, in its own dtype. Gradients of keys that travel are summed as ever.
//
// Partial results, sums of gradients and gradients on the wire are in AccumulateType; keys on the
// wire in their own dtype. Collective: all context places make the same calls in the same order.
// Throws base::StatusError where a peer fails.

#include <memory>
#include <optional>
#include <vector>

#include "attention/block_attention.h"
#include "attention/context_plan.h"
#include "attention/tile_runner.h"
#include "attention/varlen_rounds.h"
#include "comm/communicator.h"

namespace moonring::attention {

// How many slices the kv heads are taken in.
int64_t SlicesOf(const ContextPlan& plan, int64_t kv_heads);

class ContextAttention {
 public:
  // `ranks` are the group's, by context place.
  ContextAttention(ContextPlan plan, std::vector<int> ranks,
                   std::shared_ptr<comm::Communicator> group,
                   std::shared_ptr<const TileRunner> runner)
      : plan_(std::move(plan)),
        ranks_(std::move(ranks)),
        group_(std::move(group)),
        runner_(std::move(runner)) {}

  // Rows of the place, q [T, H, D], k and v [T, Hk, D] in the input's dtype -> out [T, H, D] and
  // lse [T, H]; out in AccumulateType, or as one call of a kernel made it.
  PartialAttention Forward(const RunHeads& heads, const QueryKeyValue& rows) const;

  // Adds the gradients of the rows to `sums`, shaped as they are, in AccumulateType. dout in any
  // dtype.
  void Backward(const RunHeads& heads, const QueryKeyValue& rows, const QueryResults& results,
                const QueryKeyValue& sums) const;

  // Whether there is nothing to merge; the same in forward and backward. Then this is the backward:
  // each gradient in the dtype in which the kernel gives it, or AccumulateType, perhaps in `freed`,
  // as TileRunner has it.
  bool IsOneCall(const RunHeads& heads, const QueryKeyValue& rows) const;
  QueryKeyValue BackwardAtOnce(const RunHeads& heads, const QueryKeyValue& rows,
                               const QueryResults& results, const QueryKeyValue& freed) const;

 private:
  ContextPlan plan_;
  std::vector<int> ranks_;
  std::shared_ptr<comm::Communicator> group_;
  std::shared_ptr<const TileRunner> runner_;
  mutable std::optional<Rows> of_all_;  // of a plan that gathers by a collective; for all layers
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_CONTEXT_ATTENTION_H_
