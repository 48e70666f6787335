#ifndef MOONRING_ATTENTION_CONTEXT_PLAN_H_
#define MOONRING_ATTENTION_CONTEXT_PLAN_H_

// What one rank does along the context axis in one layer: its queries stay, and meet the keys of
// all places, step by step.
//
// A step has a buffer of keys, filled by what other places send, or the place's own rows; and the
// tiles of the queries against it. Its keys may in turn be sent on as those of later steps. The
// backward goes through the same steps: the keys travel again, and the gradients of a step's keys
// go back the way these came, added up where the keys were split.
//
// A plan is a function of (layout, place, options): every place makes its own without
// communication, and they fit together, since all places have the same steps in the same order. One
// is made a micro-batch, and all layers share it.

#include <cstdint>
#include <vector>

#include "attention/tile.h"
#include "attention/tile_plan.h"
#include "comm/layout.h"

namespace moonring::attention {

// Rows that go to another place, or come from one, in one piece. What leaves as the i-th row
// arrives as the i-th.
struct KeyMove {
  int place = 0;
  std::vector<RowRange> rows;
  int64_t count() const;
};

struct ContextStep {
  bool own = false;  // the keys are the place's own rows: nothing travels
  int source = 0;    // the step whose keys are sent; an own one or one before this
  int lead =
      1;  // the transfer starts when the step this many before is computed, or at the beginning
  std::vector<KeyMove> send;     // rows of the source's keys
  std::vector<KeyMove> receive;  // rows of this step's keys, all of them
  // Where it is not empty all places gather all rows of all in one collective, in place of sending
  // and receiving; these are the rows of the step's keys, in order, among those of all places, one
  // place after another. The gradients of all rows go back by one reduce-scatter.
  std::vector<RowRange> of_all;
  TilePlan tiles;
};

struct ContextPlan {
  std::vector<ContextStep> steps;
  bool sliced =
      false;  // taken a few heads at a time, the transfer of the next heads under the work on these

  double area() const;
};

// Rows that were merged where neighbours: those of the segments, in their order.
std::vector<RowRange> RowsOf(const std::vector<KeySegment>& segments);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_CONTEXT_PLAN_H_
