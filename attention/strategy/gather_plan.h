#ifndef MOONRING_ATTENTION_STRATEGY_GATHER_PLAN_H_
#define MOONRING_ATTENTION_STRATEGY_GATHER_PLAN_H_

// all-gather (alias llama3): queries stay, and each context rank gathers all keys and values that
// its queries attend to before it computes (The Llama 3 Herd of Models, arXiv:2407.21783, section
// 3.3.2).
//
// Only rows that are needed are gathered: those of common documents up to the rank's last query,
// and within a sliding window. They are stored in the order of the stream, so that a query block
// makes the same kernel calls as on one rank: out and lse are bit-equal to dense attention, and no
// partial results are merged. Heads are processed a few at a time: the keys of the next heads
// travel while these are computed. In the backward keys are gathered once more, and dk, dv go back
// to their owners in AccumulateType. An owner adds its own contribution first, then that of the
// next context rank, and so on.
//
// With native collectives (NCCL) every context rank gathers everything instead, and dk, dv are
// reduce-scattered: one launch in place of P - 1 messages each way. This is done only where little
// of it is unneeded: context ranks have equally many rows, there is no window and no mask, and at
// least three quarters of the gathered rows are of documents that the rank has tokens of. The
// decision is a function of the layout, so all ranks make the same one.
//
// Cost for P context ranks and S tokens in one document, Nk = S Hk D e (e: bytes of an element):
// one step with P - 1 peers for each slice of heads in the forward, two in the backward. Sent per
// rank: at most 2 Nk (P - 1)/P in the forward, on average 3/4 of that under zigzag ownership; in
// the backward the same, and as many rows once more in AccumulateType. Balance of work: see zigzag
// in comm/layout.h. Memory: the keys and values of the documents for two slices of heads, in the
// backward also their gradients in AccumulateType; with collectives also the gathered rows of one
// slice.

#include "attention/kernels/tile_plan.h"
#include "attention/strategy/context_plan.h"
#include "comm/layout.h"

namespace moonring::attention {

ContextPlan PlanGather(const comm::Layout& layout, int place, const TileOptions& options);
// The same for a group that has native collectives.
ContextPlan PlanGatherTogether(const comm::Layout& layout, int place, const TileOptions& options);

// Only the transfers to and from context rank `place`, for counting their cost; without tiles.
ContextPlan PlanGatherTraffic(const comm::Layout& layout, int place, int64_t window);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_STRATEGY_GATHER_PLAN_H_
