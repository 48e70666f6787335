#include "mixers/plan_mixing.h"

#include <utility>

#include "mixers/heads_mixing.h"
#include "mixers/local_mixing.h"

namespace moonring::mixers {

std::shared_ptr<PlannedMixing> PlanMixing(std::shared_ptr<const comm::Layout> layout,
                                          std::shared_ptr<comm::Communicator> group) {
  if (group->size() == 1) return std::make_shared<LocalMixing>(layout->lengths());
  return std::make_shared<HeadsMixing>(std::move(layout), std::move(group));
}

}  // namespace moonring::mixers
