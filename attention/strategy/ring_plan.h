#ifndef MOONRING_ATTENTION_STRATEGY_RING_PLAN_H_
#define MOONRING_ATTENTION_STRATEGY_RING_PLAN_H_

// ring, zigzag-ring, double-ring: each rank keeps its queries, while keys and values are sent
// between ranks, those of one owner in each step. There are P context ranks (a context rank,
// `place` in the code, is a rank's index along the context axis). They form windows of w
// consecutive ones.
//
// In a plain ring w = P. In step s context rank r receives the keys of rank r - s (modulo w, in its
// window), computes its queries' attention to these keys and merges it into the result
// (softmax_merge.h). Strategies ring and zigzag-ring differ only in the layout, that is in which
// rank owns which tokens. (Ring Attention, arXiv:2310.01889; the balanced order is that of Brandon
// et al., Striped Attention, arXiv:2311.09431, and of Llama 3, in chunks.)
//
// Keys are sent directly from their owner to each rank that needs them, not from neighbour to
// neighbour. Only rows that some query of the receiver attends to are sent: none between ranks that
// have no common document, none to earlier tokens of a document, none beyond a sliding window. The
// transfer of step s + 1 runs while step s is computed; its receive is posted first. In the
// backward keys are sent once more, and the sums dk, dv of a step return directly to the keys'
// owner while the next step is computed. An owner adds its own contribution first, then the others
// in the order of steps, so that sums are the same in every run. In transfer, keys and values are
// in the inputs' dtype, dk and dv in AccumulateType.
//
// Double ring (LoongTrain, arXiv:2406.18485): w < P. Keys are sent to another window once. One rank
// of that window, which has the same index in its window as the keys' owner, receives all rows that
// any rank of the window needs and forwards them to the other ranks. So only P/w - 1 of the P - 1
// transfers cross a window's border, and each of these overlaps with the computation of w steps.
// The gradients of these keys are summed within the window before they return. If each window is a
// machine, the links between machines carry w times fewer bytes than with direct sends.
//
// Cost for S tokens in one document, Nk = S Hk D e (Hk kv heads of D channels; e: bytes of an
// element): P - 1 steps in the forward, 2 (P - 1) in the backward. A ring that passes keys from
// neighbour to neighbour sends 2 Nk (P - 1)/P bytes per rank in the forward. This implementation
// sends on average 1/2 of that under contiguous ownership and 3/4 under zigzag; a double ring sends
// somewhat more in total, but only about 2 Nk (P/w - 1)/P of it between windows. The backward sends
// the same again, and as many rows of gradients in AccumulateType. Balance of work: with contiguous
// ownership the last rank has 2 - 1/P times the mean; zigzag: see comm/layout.h. Memory: two
// buffers of keys and values (three with windows); in the backward also two of gradients in
// AccumulateType.

#include <cstdint>

#include "attention/kernels/tile_plan.h"
#include "attention/strategy/context_plan.h"
#include "attention/strategy/key_transport.h"
#include "comm/layout.h"

namespace moonring::attention {

class RingTransport final : public KeyTransport {
 public:
  // `window`: w, a divisor of P; 0: P, a single ring.
  explicit RingTransport(int window = 0) : window_(window) {}

  absl::string_view name() const override { return "ring"; }
  // A step in which no rank sends anything is skipped on all ranks.
  ContextPlan Plan(const comm::Layout& layout, int place,
                   const TileOptions& options) const override;
  // O(P), whereas Plan examines the transfers between all ranks.
  ContextPlan PlanTraffic(const comm::Layout& layout, int place, int64_t window) const override;
  int ranks_per_window(int contexts) const override { return window_ > 0 ? window_ : contexts; }

 private:
  int window_;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_STRATEGY_RING_PLAN_H_
