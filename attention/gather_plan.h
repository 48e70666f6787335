#ifndef MOONRING_ATTENTION_GATHER_PLAN_H_
#define MOONRING_ATTENTION_GATHER_PLAN_H_

// all-gather (alias llama3): queries stay, and each place gathers all keys and values that they see
// before it computes (The Llama 3 Herd of Models, arXiv:2407.21783, section 3.3.2).
//
// Only what is seen is gathered: the rows of common documents up to the place's last query, and
// within a sliding window. They lie in the order of the stream, so a query block meets them in the
// calls that it makes on one rank: out and lse are bit-equal to dense attention, and no partial
// results are merged. Heads are taken a few at a time: the keys of the next ones travel while these
// compute. In the backward keys are gathered again, and dk, dv go back to their owners in
// AccumulateType, who add their own part first, then that of the next place, and so on.
//
// With collectives (NCCL's) every place gathers everything instead, and dk, dv are
// reduce-scattered: one launch in place of P - 1 messages each way. It is done where that sends
// little that nobody sees: places have equally many rows, there is no window and no mask, and at
// least three quarters of what is gathered are of documents that the place has a part of. The
// decision is a function of the layout, so all make the same.
//
// Cost, P places, S tokens in one document, Nk = S Hk D e: one step with P - 1 peers for each slice
// of heads forward, two backward. Sent per rank: at most 2 Nk (P - 1)/P forward, on average 3/4 of
// that under zigzag ownership; backward the same, and as many rows again in AccumulateType.
// Balance: as comm/layout.h has it for zigzag. Memory: the keys and values of the documents for two
// slices of heads, backward their gradients in AccumulateType too; with collectives also those of
// one slice as they were gathered.

#include "attention/context_plan.h"
#include "attention/tile_plan.h"
#include "comm/layout.h"

namespace moonring::attention {

ContextPlan PlanGather(const comm::Layout& layout, int place, const TileOptions& options);
// The same for a group that has collectives.
ContextPlan PlanGatherTogether(const comm::Layout& layout, int place, const TileOptions& options);

// What travels to and from the place, to be counted: no tiles.
ContextPlan PlanGatherTraffic(const comm::Layout& layout, int place, int64_t window);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_GATHER_PLAN_H_
