#ifndef MOONRING_MIXERS_OVER_RANKS_MIXING_PLANNER_H_
#define MOONRING_MIXERS_OVER_RANKS_MIXING_PLANNER_H_

// Creates the PlannedMixing of a micro-batch on a group of ranks, for a strategy
// (mixing_strategy.h). With `auto` the strategy is chosen at a layer's first call, by its sizes
// (numbers of heads, head dims) and the kind of device of its tensors. Layers of equal sizes share
// the choice.

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/layout.h"
#include "comm/sequence.h"
#include "mixers/over_ranks/mixing_strategy.h"
#include "mixers/over_ranks/planned_mixing.h"

namespace moonring::mixers {

struct MixingOptions {
  MixingStrategy strategy = MixingStrategy::kAuto;
};

// The plan for this rank; never null. `parents`: the parent of each document (shared prefixes,
// comm/sequence.h), or empty. Every strategy supports documents that continue from their parent's
// end (generations.h). The choice of `auto` does not depend on parents.
std::shared_ptr<PlannedMixing> PlanMixing(std::shared_ptr<const comm::Layout> layout,
                                          std::shared_ptr<comm::Communicator> group,
                                          const MixingOptions& options = {},
                                          std::vector<comm::Parent> parents = {});

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_OVER_RANKS_MIXING_PLANNER_H_
