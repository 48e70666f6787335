#include "model/config/inventory.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "model/config/weights.h"

namespace moonring::model {
namespace {

const char* PartAt(const LayerRule& layer, int place) {
  if (place >= kBlockWeights) return "experts";
  if (IsNorm(place)) return "norms";
  if (FactsOf(place).kind == WeightKind::kStack) return "experts";
  switch (place) {
    case kGate:
    case kUp:
    case kGateUp:
    case kDown:
    case kGateBias:
    case kUpBias:
    case kDownBias:
      return "mlp";
    case kRouter:
    case kRouterScale:
    case kExpertScale:
    case kRouterBias:
    case kRouterCorrection:
    case kSharedSwitch:
      return "router";
    case kLayerInputGate:
    case kLayerInputMap:
    case kLayerScale:
      return "layer inputs";
    case kExpertsInput:
    case kExpertsOutput:
      return "experts' maps";
    case kSharedGate:
    case kSharedUp:
    case kSharedDown:
      return "shared expert";
    default:
      break;
  }
  return layer.mixer->name;
}

}  // namespace

std::vector<Part> PartsOf(const ModelConfig& config) {
  absl::flat_hash_map<std::string, const char*> part_of;
  part_of[EmbeddingName(config)] = "embedding";
  part_of[LayerTableName(config)] = "layer embedding";
  part_of[LayerMapName(config)] = "layer inputs";
  part_of[LayerMapNormName(config)] = part_of[FinalNormName(config)] = "norms";
  part_of[HeadName(config)] = "head";
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    for (int place = 0; place < WeightPlaces(config, layer); ++place) {
      const std::string name = WeightName(config, layer, place);
      if (!name.empty()) part_of[name] = PartAt(config.layer_rules[layer], place);
    }
  }
  std::vector<Part> parts;
  for (const WeightShape& weight : WantedWeights(config)) {
    const std::string name = part_of.at(weight.name);
    auto part = std::find_if(parts.begin(), parts.end(),
                             [&](const Part& other) { return other.name == name; });
    if (part == parts.end()) part = parts.insert(parts.end(), {name});
    int64_t elements = 1;
    for (const int64_t size : weight.shape) elements *= size;
    part->parameters += elements;
  }
  for (Part& part : parts)
    part.active = part.name == "experts"
                      ? part.parameters / config.experts.count * config.experts.chosen
                      : part.parameters;
  return parts;
}

}  // namespace moonring::model
