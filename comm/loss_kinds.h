#ifndef MOONRING_COMM_LOSS_KINDS_H_
#define MOONRING_COMM_LOSS_KINDS_H_

// Whether a loss uses sharded and replicated values (autograd_collectives.h) as their backward
// expects. The graph is walked from the loss to its leaves. On each path the loss's kind holds down
// to the first collective, there it becomes the kind that the collective takes, and so on. The path
// is refused where
//
//   a sum over ranks is used as a sharded value    each rank's gradient would lack the other ranks'
//   a Spread, or rows that ranks have exchanged,   the loss would be that of one rank's share
//   are used as a replicated value
//   a Parameter is used where values are           its gradient would be the group's size times too
//   replicated. The model's outputs, which are     large; or, for the model's outputs, the loss
//   made of Parameters on this rank's tokens, too  would be that of one rank's share
//
// The result depends on the graph alone, not on the number of ranks or on how documents are cut. A
// tensor without a graph, and a script's own leaf, may be of either kind.
//
// Cost: one visit of each node and kind, 0.1 ms for SmolLM2-135M; no communication.

#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "comm/autograd_collectives.h"

namespace moonring::comm {

struct KindBreach {
  enum class What { kSum, kShare, kWeights };
  What what;
  std::string node;  // the collective, or the node that uses a Parameter
  // The collective whose input must be replicated; empty if the loss itself must be.
  std::string inside;
};

// The first breach on a shortest path; nullopt if there is none.
std::optional<KindBreach> FindKindBreach(const at::Tensor& loss, Kind kind);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_LOSS_KINDS_H_
