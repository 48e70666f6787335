#include "model/gguf/gguf_layout.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "model/config/block_weights.h"
#include "model/config/family.h"
#include "model/config/weights.h"
#include "model/mixers/mixers.h"

namespace moonring::model {
namespace {

using Has = std::function<bool(const std::string&)>;

// Returns GGUF's name of a block's map or norm.
absl::string_view GgufName(int place) {
  switch (place) {
    case kInputNorm:
      return "attn_norm";
    case kAttentionNorm:
      return "post_attention_norm";
    case kMlpInputNorm:
      return "ffn_norm";
    case kGate:
      return "ffn_gate";
    case kUp:
    case kGateUp:
      return "ffn_up";
    case kDown:
      return "ffn_down";
    case kRouter:
      return "ffn_gate_inp";
    case kRouterCorrection:
      return "exp_probs_b";
    case kSharedGate:
      return "ffn_gate_shexp";
    case kSharedUp:
      return "ffn_up_shexp";
    case kSharedDown:
      return "ffn_down_shexp";
    case kSharedSwitch:
      return "ffn_gate_inp_shexp";
    case kMlpNorm:
      return "post_ffw_norm";
    default:
      break;
  }
  for (const Mixer* mixer : Mixers()) {
    for (const MixerGgufName& each : mixer->gguf) {
      if (each.weight == place) return each.name;
    }
  }
  return "";
}

constexpr const char* kExperts[kExpertWeights] = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"};

// The end of a weight's tensor name in GGUF.
const char* Suffix(int place) {
  if (place == kDeltaDecayLog) return "";
  const bool bias = IsBias(place) || place == kRouterCorrection || place == kDeltaDecayShift;
  return bias ? ".bias" : ".weight";
}

std::optional<GgufValueHeads> TiledIn(const ModelConfig& config, int place) {
  if (!config.family->gguf.tiled_values) return std::nullopt;
  const DeltaRule& rule = config.delta;
  switch (place) {
    case kDeltaQueryKeyValue:
    case kDeltaFilter:
      return GgufValueHeads{0, 2 * rule.keys(), rule.value_dim};
    case kDeltaGate:
      return GgufValueHeads{0, 0, rule.value_dim};
    case kDeltaBeta:
    case kDeltaDecay:
    case kDeltaDecayLog:
    case kDeltaDecayShift:
      return GgufValueHeads{0, 0, 1};
    case kDeltaOutput:
      return GgufValueHeads{1, 0, rule.value_dim};
    default:
      return std::nullopt;
  }
}

GgufSource SourceOf(const ModelConfig& config, int64_t layer, int place, const Has& has) {
  const std::string block = absl::StrCat("blk.", layer, ".");
  const auto experts = [&](ExpertWeight weight, const char* kind) {
    return absl::StrCat(block, kExperts[weight], kind);
  };
  if (place >= kBlockWeights) {
    const int number = place - kBlockWeights;
    return {.tensors = {experts(static_cast<ExpertWeight>(number % kExpertWeights), ".weight")},
            .parts = GgufParts::kExpert,
            .expert = number / kExpertWeights};
  }
  const int named = IsBias(place) ? MapOfBias(place) : place;
  const char* const kind = Suffix(place);
  const bool interleaved = config.family->gguf.interleaved_heads;
  const auto heads = [&](int map) {
    return !interleaved ? 0 : map == kQuery ? config.heads : map == kKey ? config.kv_heads : 0;
  };
  GgufSource source{.tensors = {absl::StrCat(block, GgufName(named), kind)},
                    .norm = IsNorm(place) && place != kDeltaNorm,
                    .interleaved_heads = {heads(named)},
                    .tiled = TiledIn(config, place),
                    .negated_exponential = place == kDeltaDecayLog};
  const bool turned = IsTransposed(config.experts.storage);
  if (FactsOf(place).kind == WeightKind::kFilter) source.parts = GgufParts::kTaps;
  switch (place) {
    case kExpertsGateUp:
      return {.tensors = {experts(kExpertGate, ".weight"), experts(kExpertUp, ".weight")},
              .parts = turned ? GgufParts::kTurns : GgufParts::kHalves};
    case kExpertsGateUpBias:
      return {.tensors = {experts(kExpertGate, ".bias"), experts(kExpertUp, ".bias")},
              .parts = GgufParts::kTurns};
    case kExpertsDown:
      return {.tensors = {experts(kExpertDown, ".weight")},
              .parts = turned ? GgufParts::kTransposed : GgufParts::kOne};
    case kExpertsDownBias:
      return {.tensors = {experts(kExpertDown, ".bias")}};
    case kMlpInputNorm:
      if (config.family->gguf.norm_follows_attention)
        source.tensors = {absl::StrCat(block, GgufName(kAttentionNorm), kind)};
      break;
    case kKeyValueUp:
      if (has(source.tensors[0])) break;
      return {.tensors = {absl::StrCat(block, "attn_k_b.weight"),
                          absl::StrCat(block, "attn_v_b.weight")},
              .parts = GgufParts::kKeyValueUp};
    case kSharedSwitch:
      source.parts = GgufParts::kRow;
      break;
    case kDeltaQueryKeyValueGate:
      // Older files store the whole weight as one tensor.
      if (const std::string whole = absl::StrCat(block, "ssm_in.weight"); has(whole))
        return {.tensors = {whole}};
      return {.tensors = {absl::StrCat(block, "attn_qkv.weight"),
                          absl::StrCat(block, "attn_gate.weight")},
              .parts = GgufParts::kKeyHeads};
    default:
      break;
  }
  if (named == kQueryKeyValue && config.family->qkv_rows == QkvRows::kGrouped) {
    source = {.parts = GgufParts::kKvHeads};
    for (const int map : {kQuery, kKey, kValue}) {
      source.tensors.push_back(absl::StrCat(block, GgufName(map), kind));
      source.interleaved_heads.push_back(heads(map));
    }
  }
  return source;
}

}  // namespace

std::vector<std::pair<std::string, GgufSource>> GgufSources(const ModelConfig& config,
                                                            const Has& has) {
  std::vector<std::pair<std::string, GgufSource>> sources;
  sources.emplace_back(EmbeddingName(config), GgufSource{.tensors = {"token_embd.weight"}});
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    for (int place = 0; place < WeightPlaces(config, layer); ++place) {
      std::string name = WeightName(config, layer, place);
      if (!name.empty()) sources.emplace_back(std::move(name), SourceOf(config, layer, place, has));
    }
  }
  sources.emplace_back(FinalNormName(config),
                       GgufSource{.tensors = {config.family->gguf.norm + ".weight"}, .norm = true});
  sources.emplace_back(HeadName(config), GgufSource{.tensors = {"output.weight"}});
  return sources;
}

bool IsWideInGguf(const std::string& tensor, size_t dims) {
  if (dims <= 1 || !absl::EndsWith(tensor, ".weight")) return true;
  const absl::string_view stem = absl::StripSuffix(tensor, ".weight");
  const auto is = [&](absl::string_view name) {
    return absl::EndsWith(stem, absl::StrCat(".", name));
  };
  if (is(GgufName(kRouter)) || is(GgufName(kSharedSwitch))) return true;
  for (const Mixer* mixer : Mixers()) {
    for (const MixerGgufName& each : mixer->gguf) {
      if (FactsOf(each.weight).kind == WeightKind::kFilter && is(each.name)) return true;
    }
  }
  return absl::EndsWith(stem, "_norm");
}

}  // namespace moonring::model
