#include "model/expert_parts.h"

#include "model/config/block_weights.h"
#include "model/config/weights.h"

namespace moonring::model {

ExpertParts::ExpertParts(const ModelConfig& config, const comm::BinExchange& ranks) {
  const int64_t first = ranks.first(), end = first + ranks.count();
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    for (int place = 0; place < WeightPlaces(config, layer); ++place) {
      const std::string name = WeightName(config, layer, place);
      if (name.empty()) continue;
      if (place >= kBlockWeights) {
        const int64_t expert = (place - kBlockWeights) / kExpertWeights;
        parts_[name] = {0, expert >= first && expert < end ? kAll : 0};
      } else if (FactsOf(place).kind == WeightKind::kStack) {
        parts_[name] = {first, end - first};
      }
    }
  }
}

void ExpertParts::Keep(comm::Parameter& parameter) const {
  const auto part = parts_.find(parameter.name());
  if (part == parts_.end()) return;
  const auto [first, count] = part->second;
  parameter.KeepRows(first, count == kAll ? parameter.shape()[0] : count);
}

}  // namespace moonring::model
