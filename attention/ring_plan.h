#ifndef MOONRING_ATTENTION_RING_PLAN_H_
#define MOONRING_ATTENTION_RING_PLAN_H_

// ring, zigzag-ring, double-ring: queries stay, keys and values travel, one owner's at a time.
// Places are P, in windows of w.
//
// In step s a place meets the keys of the place s before it in its window, and merges what its
// queries see of them (softmax_merge.h). Contiguous or zigzag ownership, and w = P: only the layout
// differs. (Ring Attention, arXiv:2310.01889; the balanced order is that of Brandon et al., Striped
// Attention, arXiv:2311.09431, and of Llama 3, in chunks.)
//
// Keys go straight from their owner to each reader, and only the rows that some query of the reader
// sees: none between places without a common document, none backwards in a document, none beyond a
// sliding window. The transfer of step s + 1 runs while step s computes, its receive posted first.
// In the backward keys travel again, and the sums dk, dv of a step go straight back to their owner
// while the next step computes. An owner adds its own part first, then by step: the same order in
// every run. On the wire keys and values are in the input's dtype, dk and dv in AccumulateType.
//
// Double ring (LoongTrain, arXiv:2406.18485): w < P. Keys cross into another window once, to the
// place with their owner's number there, all rows that someone in that window sees; that place
// sends them on to the others. So of the P - 1 moves only P/w - 1 cross windows, and each is under
// way while w steps compute. Their gradients are added up in the window before they go home. Where
// windows are machines, links between these carry w times less than with direct sends.
//
// Cost for S tokens in one document, Nk = S Hk D e: P - 1 steps forward, 2 (P - 1) backward. A ring
// that relays sends 2 Nk (P - 1)/P per rank forward; this one on average 1/2 of that under
// contiguous ownership, 3/4 under zigzag; a double ring some more in all, but only about 2 Nk (P/w
// - 1)/P of it between windows. Backward: the same, and as many rows again in AccumulateType.
// Balance: contiguous, the last place has 2 - 1/P times the mean; zigzag, as comm/layout.h has it.
// Memory: two buffers of keys and values (three with windows); backward, two of gradients in
// AccumulateType.

#include "attention/context_plan.h"
#include "attention/tile_plan.h"
#include "comm/layout.h"

namespace moonring::attention {

// A step in which no place sends anything is left out, on all places. `window` divides the places.
ContextPlan PlanRing(const comm::Layout& layout, int place, int window, const TileOptions& options);

// What travels to and from the place, to be counted: no tiles, and only the steps in which it takes
// part. O(places), where PlanRing looks at what all places send to each other.
ContextPlan PlanRingTraffic(const comm::Layout& layout, int place, int window,
                            int64_t token_window);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_RING_PLAN_H_
