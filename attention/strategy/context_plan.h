#ifndef MOONRING_ATTENTION_STRATEGY_CONTEXT_PLAN_H_
#define MOONRING_ATTENTION_STRATEGY_CONTEXT_PLAN_H_

// A rank's plan for one layer's attention along the context axis. A context rank (`place` in the
// code) is a rank's index along that axis. A rank keeps its queries and, step by step, computes
// their attention to the keys of all context ranks.
//
// Each step has a buffer of keys, either local or received from other context ranks, and the tiles
// of the queries against these keys. Later steps may forward the buffer's keys to further ranks.
// The backward repeats the same steps: the keys are sent once more, and their gradients return
// along the path of the keys, summed where keys were sent to several ranks.
//
// A plan is a function of (layout, context rank, options). Every rank makes its own plan without
// communication, and the plans match, since all context ranks have the same steps in the same
// order. One plan is made per micro-batch and shared by all layers.

#include <cstdint>
#include <vector>

#include "attention/kernels/tile.h"
#include "attention/kernels/tile_plan.h"
#include "comm/layout.h"

namespace moonring::attention {

// Rows that are sent to another context rank, or received from it, in one message. The i-th row
// sent is the i-th row received.
struct KeyMove {
  int place = 0;
  std::vector<RowRange> rows;
  int64_t count() const;
};

struct ContextStep {
  bool own = false;  // the keys are local rows: nothing is transferred
  int source = 0;    // index of the earlier step whose keys are sent; this step's own index: local
                     // rows are sent
  int lead = 1;      // the transfer starts this many steps before this one, or at the beginning
  std::vector<KeyMove> send;     // rows to send, of the keys of step `source`
  std::vector<KeyMove> receive;  // the rows of this step's keys, by sender
  // If not empty, all context ranks gather all rows in one all-gather, instead of `send` and
  // `receive`. These are the rows of this step's keys, in order, within the concatenation of all
  // context ranks' rows. The gradients of all rows go back by one reduce-scatter.
  std::vector<RowRange> of_all;
  TilePlan tiles;
};

struct ContextPlan {
  std::vector<ContextStep> steps;
  bool sliced = false;  // process a few heads at a time, while the next heads' keys are being
                        // transferred

  double area() const;
};

// The rows of the segments in their order; adjacent ranges are merged.
std::vector<RowRange> RowsOf(const std::vector<KeySegment>& segments);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_STRATEGY_CONTEXT_PLAN_H_
