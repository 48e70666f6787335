#include "model/config/weights.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "model/config/family.h"

namespace moonring::model {
namespace {

std::string Numbered(const std::string& pattern, int64_t number) {
  return absl::StrReplaceAll(pattern, {{"%d", absl::StrCat(number)}});
}

bool HasBias(const ModelConfig& config, int64_t layer, int map) {
  if (FactsOf(map).part == BlockPart::kOfMixer) {
    const Mixer& mixer = *config.layer_rules[layer].mixer;
    return mixer.biased != nullptr && mixer.biased(config, map);
  }
  return map == kRouter ? config.experts.bias : config.mlp_bias;
}

// Whether a layer has the block component that the weight belongs to.
bool InLayer(const ModelConfig& config, int64_t layer, int place) {
  const LayerRule& rule = config.layer_rules[layer];
  switch (FactsOf(place).part) {
    case BlockPart::kEvery:
      return true;
    case BlockPart::kMixer:
      return rule.mixer != nullptr;
    case BlockPart::kOfMixer:
      return rule.mixer != nullptr && !rule.mixer->shape(config, rule, place).empty();
    case BlockPart::kMlp:
      return rule.mlp;
    case BlockPart::kLayerInput:
      return config.layer_inputs.width > 0;
    case BlockPart::kDense:
      return rule.mlp && (!rule.experts || config.experts.beside_dense);
    case BlockPart::kMixture:
      return rule.experts;
    case BlockPart::kSharedExpert:
      return rule.experts && config.experts.shared > 0;
  }
  return false;
}

// Whether the weight exists in the layers that have its component (BlockPart).
bool HasPlace(const ModelConfig& config, int place) {
  switch (place) {
    case kExpertsGateUp:
    case kExpertsDown:
      return config.experts.storage != ExpertStorage::kEach;
    case kExpertsGateUpBias:
    case kExpertsDownBias:
      return config.experts.bias;
    case kExpertsInput:
    case kExpertsOutput:
      return config.experts.width > 0;
    default:
      return true;
  }
}

// Shape of a tensor that stacks all experts.
std::vector<int64_t> StackShape(const ModelConfig& config, int place) {
  const int64_t experts = config.experts.count, d = config.hidden_size,
                inner = config.experts.intermediate;
  const bool transposed = IsTransposed(config.experts.storage);
  switch (place) {
    case kExpertsGateUp:
      return transposed ? std::vector<int64_t>{experts, d, 2 * inner}
                        : std::vector<int64_t>{experts, 2 * inner, d};
    case kExpertsDown:
      return transposed ? std::vector<int64_t>{experts, inner, d}
                        : std::vector<int64_t>{experts, d, inner};
    case kExpertsGateUpBias:
      return {experts, 2 * inner};
    default:
      return {experts, d};
  }
}

std::vector<int64_t> Shape(const ModelConfig& config, int64_t layer, int place) {
  const LayerRule& rule = config.layer_rules[layer];
  const int64_t d = config.hidden_size, shared = config.experts.shared;
  if (IsBias(place)) return {Shape(config, layer, MapOfBias(place)).front()};
  if (FactsOf(place).part == BlockPart::kOfMixer) return rule.mixer->shape(config, rule, place);
  switch (place) {
    case kGate:
    case kUp:
      return {rule.intermediate_size, d};
    case kGateUp:
      return {2 * rule.intermediate_size, d};
    case kDown:
      return {d, rule.intermediate_size};
    case kRouter:
      return {config.experts.count, d};
    case kRouterCorrection:
      return {config.experts.count};
    case kExpertsInput:
      return {config.experts.width, d};
    case kExpertsOutput:
      return {d, config.experts.width};
    case kSharedGate:
    case kSharedUp:
      return {shared, d};
    case kSharedDown:
      return {d, shared};
    case kSharedSwitch:
      return {1, d};
    case kRouterScale:
      return {d};
    case kExpertScale:
      return {config.experts.count};
    case kLayerInputGate:
      return {config.layer_inputs.width, d};
    case kLayerInputMap:
      return {d, config.layer_inputs.width};
    case kLayerScale:
      return {1};
    default:
      break;
  }
  if (IsNorm(place)) return {d};
  if (FactsOf(place).kind == WeightKind::kStack) return StackShape(config, place);
  const int64_t seen = config.experts.width > 0 ? config.experts.width : d;
  if ((place - kBlockWeights) % kExpertWeights == kExpertDown)
    return {seen, config.experts.intermediate};
  return {config.experts.intermediate, seen};
}

// The indices of a block's weights in the order of a forward pass: each bias after its map, the
// experts after their router. Some weights at the end of the table of BlockWeight are used earlier
// in a forward, but are listed last.
std::vector<int> PlacesInOrder(const ModelConfig& config, int64_t layer) {
  std::vector<int> places;
  for (int place = 0; place < kBlockWeights; ++place) {
    if (IsBias(place)) continue;
    places.push_back(place);
    for (int bias = 0; bias < kBlockWeights; ++bias) {
      if (MapOfBias(bias) == place) places.push_back(bias);
    }
    for (int expert = kBlockWeights; place == kRouter && expert < WeightPlaces(config, layer);
         ++expert)
      places.push_back(expert);
  }
  return places;
}

const std::string& ModuleAt(const WeightNames& names, const Mixer* mixer, int place) {
  const auto others = names.in_layers_of.find(mixer);
  if (others != names.in_layers_of.end()) {
    for (const auto& [other, name] : others->second) {
      if (other == place) return name;
    }
  }
  return names.in_block[place];
}

// The suffix after a module's name in its weight's name.
const char* Suffix(WeightKind kind) {
  switch (kind) {
    case WeightKind::kBias:
      return ".bias";
    case WeightKind::kStack:
    case WeightKind::kNumbers:
    case WeightKind::kBuffer:
      return "";
    default:
      return ".weight";
  }
}

}  // namespace

int WeightPlaces(const ModelConfig& config, int64_t layer) {
  const bool each =
      config.layer_rules[layer].experts && config.experts.storage == ExpertStorage::kEach;
  return ExpertWeightPlace(each ? static_cast<int>(config.experts.count) : 0, kExpertGate);
}

std::string WeightName(const ModelConfig& config, int64_t layer, int place) {
  const WeightNames& names = config.family->names;
  std::string module;
  if (place >= kBlockWeights) {
    const int expert = (place - kBlockWeights) / kExpertWeights;
    const std::string& map = names.in_expert[(place - kBlockWeights) % kExpertWeights];
    if (map.empty()) return "";
    module = absl::StrCat(Numbered(names.expert, expert), map);
  } else {
    const int named = IsBias(place) ? MapOfBias(place) : place;
    module = ModuleAt(names, config.layer_rules[layer].mixer, named);
    if (module.empty() || !InLayer(config, layer, named) || !HasPlace(config, named)) return "";
    if (IsBias(place) && !HasBias(config, layer, named)) return "";
  }
  return absl::StrCat(Numbered(names.layer, layer), module, Suffix(FactsOf(place).kind));
}

std::string LayerName(const ModelConfig& config, int64_t layer) {
  const std::string name = Numbered(config.family->names.layer, layer);
  return name.substr(0, name.size() - 1);  // without the trailing dot
}
std::string EmbeddingName(const ModelConfig& config) {
  return config.family->names.embedding + ".weight";
}
std::string FinalNormName(const ModelConfig& config) {
  return config.family->names.norm + ".weight";
}
std::string LayerTableName(const ModelConfig& config) {
  return config.family->names.layer_table + ".weight";
}
std::string LayerMapName(const ModelConfig& config) {
  return config.family->names.layer_map + ".weight";
}
std::string LayerMapNormName(const ModelConfig& config) {
  return config.family->names.layer_map_norm + ".weight";
}
std::string HeadName(const ModelConfig& config) { return config.family->names.head + ".weight"; }

std::vector<WeightShape> WantedWeights(const ModelConfig& config) {
  std::vector<WeightShape> weights;
  weights.push_back({EmbeddingName(config), {config.vocab_size, config.hidden_size}});
  if (config.layer_inputs.width > 0) {
    const int64_t all = config.layers * config.layer_inputs.width;
    weights.push_back({LayerTableName(config), {config.layer_inputs.vocab_size, all}});
    weights.push_back(
        {.name = LayerMapName(config), .shape = {all, config.hidden_size}, .linear = true});
    weights.push_back(
        {.name = LayerMapNormName(config), .shape = {config.layer_inputs.width}, .wide = true});
  }
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    for (const int place : PlacesInOrder(config, layer)) {
      std::string name = WeightName(config, layer, place);
      if (name.empty()) continue;
      const bool linear = FactsOf(place).kind == WeightKind::kMap &&
                          (place != kRouter || config.family->linear_router);
      weights.push_back({.name = std::move(name),
                         .shape = Shape(config, layer, place),
                         .linear = linear,
                         .wide = IsWide(place),
                         .learns = FactsOf(place).kind != WeightKind::kBuffer});
    }
  }
  weights.push_back({.name = FinalNormName(config), .shape = {config.hidden_size}, .wide = true});
  if (!config.tie_word_embeddings)
    weights.push_back({HeadName(config), {config.vocab_size, config.hidden_size}});
  return weights;
}

bool IsStoredBuffer(absl::string_view name) { return absl::EndsWith(name, ".rotary_emb.inv_freq"); }

std::vector<std::string> VocabularyModules(const ModelConfig& config) {
  std::vector<std::string> modules;
  for (const std::string& weight : {EmbeddingName(config), HeadName(config)}) {
    const std::string module = weight.substr(0, weight.rfind('.'));
    modules.push_back(module.substr(module.rfind('.') + 1));
  }
  return modules;
}

}  // namespace moonring::model
