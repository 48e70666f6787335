#ifndef MOONRING_ATTENTION_STRATEGY_GATHER_PLAN_H_
#define MOONRING_ATTENTION_STRATEGY_GATHER_PLAN_H_

// all-gather (alias llama3): queries stay on their rank. Each context rank gathers all keys and
// values that its queries attend to, and then computes attention (The Llama 3 Herd of Models,
// arXiv:2407.21783, section 3.3.2).
//
// Only the rows that the queries attend to are gathered: rows of documents that the rank has tokens
// of, up to its last query and within a sliding window. They are stored in the order of the stream,
// so that a query block makes the same kernel calls as on one rank: out and lse are bit-equal to
// dense attention, and no partial results are merged. Heads are processed a few at a time: while
// some heads are computed, the keys of the next heads are transferred. The backward gathers keys
// once more and sends dk, dv to the owners of the keys in AccumulateType. An owner adds its own
// contribution first, then that of the next context rank, and so on.
//
// With native collectives (NCCL) every context rank may gather all rows instead, and dk, dv are
// reduce-scattered: one launch replaces P - 1 messages each way. This is done only where few
// gathered rows are superfluous: all context ranks have equally many rows, there is neither a
// window nor a mask, and at least three quarters of the gathered rows belong to documents that the
// rank has tokens of. All ranks compute this decision from the layout, so it is the same on every
// rank.
//
// Cost for P context ranks and S tokens in one document, Nk = S Hk D e (Hk kv heads of D channels;
// e: bytes of an element): one step with P - 1 peers for each slice of heads in the forward, two in
// the backward. Sent per rank: at most 2 Nk (P - 1)/P in the forward, on average 3/4 of that under
// zigzag ownership; in the backward the same for keys, and as many rows of gradients in
// AccumulateType. Balance of work: see zigzag in comm/layout.h. Memory: the gathered keys and
// values for two slices of heads; in the backward also their gradients in AccumulateType; with
// native collectives also the result of the all-gather for one slice.

#include <cstdint>

#include "attention/kernels/tile_plan.h"
#include "attention/strategy/context_plan.h"
#include "attention/strategy/key_transport.h"
#include "comm/layout.h"

namespace moonring::attention {

class GatherTransport final : public KeyTransport {
 public:
  absl::string_view name() const override { return "gather"; }
  ContextPlan Plan(const comm::Layout& layout, int place,
                   const TileOptions& options) const override;
  ContextPlan PlanWithCollectives(const comm::Layout& layout, int place,
                                  const TileOptions& options) const override;
  ContextPlan PlanTraffic(const comm::Layout& layout, int place, int64_t window) const override;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_STRATEGY_GATHER_PLAN_H_
