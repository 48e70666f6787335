#ifndef MOONRING_MIXERS_PLAN_MIXING_H_
#define MOONRING_MIXERS_PLAN_MIXING_H_

// How a micro-batch's tokens see each other in layers that are not softmax attention, on a group of
// ranks that hold it by a layout.
//
//   heads  rows travel, each rank has some heads of all of them       heads_mixing.h
//   spans  states travel, each rank keeps its rows                    spans_mixing.h
//   auto   spans where no document is cut, as then nothing travels; else heads, with half the
//          arithmetic
//
// One rank mixes alone under any of them (local_mixing.h).

#include <memory>

#include "comm/communicator.h"
#include "comm/layout.h"
#include "mixers/planned_mixing.h"

namespace moonring::mixers {

enum class MixingStrategy { kAuto, kHeads, kSpans };

struct MixingOptions {
  MixingStrategy strategy = MixingStrategy::kAuto;
};

// This rank's. Never null.
std::shared_ptr<PlannedMixing> PlanMixing(std::shared_ptr<const comm::Layout> layout,
                                          std::shared_ptr<comm::Communicator> group,
                                          const MixingOptions& options = {});

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_PLAN_MIXING_H_
