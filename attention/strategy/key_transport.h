#ifndef MOONRING_ATTENTION_STRATEGY_KEY_TRANSPORT_H_
#define MOONRING_ATTENTION_STRATEGY_KEY_TRANSPORT_H_

// A key transport: how keys and values are sent along the context axis. It makes the plan of each
// context rank (context_plan.h): in which steps a rank receives which keys, and the tiles that it
// computes with them. The plan is all that other code knows of a transport: ContextAttention runs
// it, and attention_cost.h counts its steps, bytes and memory.
//
// Plans are made without communication, so those of the context ranks must match: all have the same
// number of steps, and where one sends rows, the other receives as many in the same step. Each pair
// of a query and a key that it attends to is in exactly one tile of one step.
//
// To add one: a file with a class like GatherTransport (gather_plan.h), its target in BUILD, and a
// row in the table of strategies.cc.

#include <cstdint>

#include "absl/strings/string_view.h"
#include "attention/kernels/tile_plan.h"
#include "attention/strategy/context_plan.h"
#include "comm/layout.h"

namespace moonring::attention {

class KeyTransport {
 public:
  virtual ~KeyTransport() = default;

  // The name, as the Lua function attention.resolve returns it: "ring" or "gather".
  virtual absl::string_view name() const = 0;

  // The plan of context rank `place` of the layout.
  virtual ContextPlan Plan(const comm::Layout& layout, int place,
                           const TileOptions& options) const = 0;

  // As Plan, for a group that has native collectives (NCCL) and whose ranks are the context ranks,
  // in the same order.
  virtual ContextPlan PlanWithCollectives(const comm::Layout& layout, int place,
                                          const TileOptions& options) const {
    return Plan(layout, place, options);
  }

  // A plan for counting what context rank `place` sends and receives with a sliding window
  // (0: none). It has the first step of Plan and the other steps with transfers of this rank; it
  // may lack the rest, and the tiles. "auto" makes many of these plans, so O(contexts) is best.
  virtual ContextPlan PlanTraffic(const comm::Layout& layout, int place, int64_t window) const {
    return Plan(layout, place, {.window = window});
  }

  // The number of consecutive context ranks that form a window, between which keys are sent only
  // once. `contexts` (all context ranks): the transport has no windows.
  virtual int ranks_per_window(int contexts) const { return contexts; }
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_STRATEGY_KEY_TRANSPORT_H_
