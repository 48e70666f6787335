#include "mixers/plan_mixing.h"

#include <utility>

#include "mixers/heads_mixing.h"
#include "mixers/local_mixing.h"
#include "mixers/span_scan.h"
#include "mixers/spans_mixing.h"

namespace moonring::mixers {

std::shared_ptr<PlannedMixing> PlanMixing(std::shared_ptr<const comm::Layout> layout,
                                          std::shared_ptr<comm::Communicator> group,
                                          const MixingOptions& options) {
  if (group->size() == 1) return std::make_shared<LocalMixing>(layout->lengths());
  const bool cuts = !SpanChains(comm::SpansOf(*layout), group->rank()).chains().empty();
  if (options.strategy == MixingStrategy::kSpans ||
      (options.strategy == MixingStrategy::kAuto && !cuts))
    return std::make_shared<SpansMixing>(std::move(layout), std::move(group));
  return std::make_shared<HeadsMixing>(std::move(layout), std::move(group));
}

}  // namespace moonring::mixers
