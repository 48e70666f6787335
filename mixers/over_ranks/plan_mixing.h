#ifndef MOONRING_MIXERS_OVER_RANKS_PLAN_MIXING_H_
#define MOONRING_MIXERS_OVER_RANKS_PLAN_MIXING_H_

// Plans the mixing of a micro-batch on a group of ranks, by a strategy (mixing_strategy.h). `auto`
// chooses for each layer's sizes at their first call, by the kind of device of its tensors.

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
// comm/sequence.h), or empty. Every strategy supports parents, where documents continue from their
// parents' ends (generations.h); the choice of `auto` does not depend on them.
std::shared_ptr<PlannedMixing> PlanMixing(std::shared_ptr<const comm::Layout> layout,
                                          std::shared_ptr<comm::Communicator> group,
                                          const MixingOptions& options = {},
                                          std::vector<comm::Parent> parents = {});

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_OVER_RANKS_PLAN_MIXING_H_
