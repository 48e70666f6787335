#ifndef MOONRING_ATTENTION_STRATEGY_RING_PLAN_H_
#define MOONRING_ATTENTION_STRATEGY_RING_PLAN_H_

// ring, zigzag-ring, double-ring: queries stay, keys and values travel, those of one owner at a
// time. There are P context ranks (`place` in the code), in windows of w.
//
// In step s a context rank receives the keys of the rank s before it in its window, and merges its
// queries' attention to them (softmax_merge.h). Contiguous and zigzag ownership differ only in the
// layout; a plain ring has w = P. (Ring Attention, arXiv:2310.01889; the balanced order is that of
// Brandon et al., Striped Attention, arXiv:2311.09431, and of Llama 3, in chunks.)
//
// Keys are sent directly from their owner to each reader, not relayed from neighbour to neighbour,
// and only the rows that some query of the reader attends to: none between ranks without a common
// document, none backwards in a document, none beyond a sliding window. The transfer of step s + 1
// runs while step s is computed; its receive is posted first. In the backward keys travel again,
// and the sums dk, dv of a step return directly to their owner while the next step is computed. An
// owner adds its own contribution first, then the others in the order of steps, so that sums are
// the same in every run. In transfer, keys and values are in the inputs' dtype, dk and dv in
// AccumulateType.
//
// Double ring (LoongTrain, arXiv:2406.18485): w < P. Keys enter another window once: the context
// rank with their owner's index within that window receives all rows that any rank of the window
// needs, and sends them on to the others. So of the P - 1 transfers only P/w - 1 cross windows, and
// each of these overlaps with the work of w steps. Their gradients are summed within the window
// before they return. Where windows are machines, the links between machines carry w times less
// than with direct sends.
//
// Cost for S tokens in one document, Nk = S Hk D e (e: bytes of an element): P - 1 steps in the
// forward, 2 (P - 1) in the backward. A relaying ring sends 2 Nk (P - 1)/P per rank in the forward.
// This one sends on average 1/2 of that under contiguous ownership and 3/4 under zigzag; a double
// ring sends somewhat more in total, but only about 2 Nk (P/w - 1)/P of it between windows.
// Backward: the same, and as many rows once more in AccumulateType. Balance of work: with
// contiguous ownership the last rank has 2 - 1/P times the mean; zigzag: see comm/layout.h. Memory:
// two buffers of keys and values (three with windows); in the backward also two of gradients in
// AccumulateType.

#include "attention/kernels/tile_plan.h"
#include "attention/strategy/context_plan.h"
#include "comm/layout.h"

namespace moonring::attention {

// The plan of context rank `place`. A step in which no rank sends anything is skipped on all ranks.
// `window`: w, a divisor of P.
ContextPlan PlanRing(const comm::Layout& layout, int place, int window, const TileOptions& options);

// Only the transfers to and from context rank `place`, for counting their cost: without tiles, and
// only the steps in which it takes part. O(P), where PlanRing examines what all ranks send to each
// other. `token_window`: the sliding window.
ContextPlan PlanRingTraffic(const comm::Layout& layout, int place, int window,
                            int64_t token_window);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_STRATEGY_RING_PLAN_H_
