#ifndef MOONRING_MIXERS_PLAN_MIXING_H_
#define MOONRING_MIXERS_PLAN_MIXING_H_

// How a micro-batch's tokens see each other in layers that are not softmax attention, on a group of
// ranks that hold it by a layout: as one rank where it has them all (local_mixing.h), else by heads
// (heads_mixing.h).

#include <memory>

#include "comm/communicator.h"
#include "comm/layout.h"
#include "mixers/planned_mixing.h"

namespace moonring::mixers {

// This rank's. Never null.
std::shared_ptr<PlannedMixing> PlanMixing(std::shared_ptr<const comm::Layout> layout,
                                          std::shared_ptr<comm::Communicator> group);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_PLAN_MIXING_H_
