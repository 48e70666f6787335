#include "model/gguf/config_to_gguf.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "ATen/TensorOperators.h"
#include "ATen/ops/tensor.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/blocks/rotary.h"
#include "model/config/family.h"
#include "model/families/families.h"
#include "model/gguf/gguf_keys.h"
#include "model/gguf/gguf_layout.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

// Writes metadata under keys with the architecture's prefix ("llama.").
class Keys {
 public:
  explicit Keys(std::string architecture) : architecture_(std::move(architecture)) {}

  const std::string& architecture() const { return architecture_; }
  bool Is(std::initializer_list<absl::string_view> names) const {
    return std::find(names.begin(), names.end(), architecture_) != names.end();
  }
  void Int(absl::string_view key, int64_t value) { metadata_.Int(Whole(key), value); }
  void Number(absl::string_view key, double value) { metadata_.Number(Whole(key), value); }
  void Bool(absl::string_view key, bool value) { metadata_.Bool(Whole(key), value); }
  void String(absl::string_view key, absl::string_view value) {
    metadata_.String(Whole(key), value);
  }
  void Ints(absl::string_view key, const std::vector<int32_t>& values) {
    metadata_.Ints(Whole(key), values);
  }
  const GgufMetadata& metadata() const { return metadata_; }

 private:
  std::string Whole(absl::string_view key) const { return absl::StrCat(architecture_, ".", key); }

  std::string architecture_;
  GgufMetadata metadata_;
};

const RotaryRule& MainRotary(const ModelConfig& config) { return config.rotaries.front(); }

void WriteSizes(const ModelConfig& config, Keys& keys) {
  keys.Int(gguf_key::kVocabSize, config.vocab_size);
  keys.Int(gguf_key::kContextLength, config.max_position_embeddings);
  keys.Int(gguf_key::kEmbeddingLength, config.hidden_size);
  keys.Int(gguf_key::kBlockCount, config.layers);
  keys.Int(gguf_key::kFeedForwardLength, config.intermediate_size);
  keys.Number(gguf_key::kAttentionLayerNormRmsEpsilon, config.rms_norm_eps);
}

// Writes the head sizes of latent attention twice: as llama.cpp computes it, with one key head of
// the latent's width; and as the model was trained.
void WriteLatentHeads(const LatentRule& latent, Keys& keys) {
  keys.Int(gguf_key::kAttentionHeadCountKv, 1);
  keys.Int(gguf_key::kAttentionKeyLength, latent.key_value_rank + latent.rotary_dim);
  keys.Int(gguf_key::kAttentionValueLength, latent.key_value_rank);
  keys.Int(gguf_key::kAttentionKeyLengthMla, latent.key_dim());
  keys.Int(gguf_key::kAttentionValueLengthMla, latent.value_dim);
  if (latent.query_rank > 0) keys.Int(gguf_key::kAttentionQLoraRank, latent.query_rank);
  keys.Int(gguf_key::kAttentionKvLoraRank, latent.key_value_rank);
  keys.Int(gguf_key::kRopeDimensionCount, latent.rotary_dim);
}

void WriteHeads(const ModelConfig& config, Keys& keys) {
  keys.Int(gguf_key::kAttentionHeadCount, config.heads);
  if (config.latent.key_value_rank > 0) return WriteLatentHeads(config.latent, keys);
  if (keys.Is({"lfm2"})) {
    std::vector<int32_t> by_layer;
    for (const LayerRule& layer : config.layer_rules) {
      by_layer.push_back(layer.attends() ? static_cast<int32_t>(layer.kv_heads) : 0);
    }
    keys.Ints(gguf_key::kAttentionHeadCountKv, by_layer);
  } else {
    keys.Int(gguf_key::kAttentionHeadCountKv, config.kv_heads);
  }
  keys.Int(gguf_key::kAttentionKeyLength, config.head_dim);
  keys.Int(gguf_key::kAttentionValueLength, config.head_dim);
  keys.Int(gguf_key::kRopeDimensionCount, MainRotary(config).dim);
}

// DeepSeek's yarn_log_multiplier, a tenth of mscale_all_dim. It is recovered from the scale of
// attention scores, which contains the factor (0.1 mscale_all_dim ln(factor) + 1)^2.
double YarnLogMultiplier(const ModelConfig& config) {
  const double scale = config.score_scale * std::sqrt(static_cast<double>(config.latent.key_dim()));
  return (std::sqrt(scale) - 1) / std::log(MainRotary(config).factor);
}

void WriteRotary(const ModelConfig& config, Keys& keys) {
  const RotaryRule& rotary = MainRotary(config);
  keys.Number(gguf_key::kRopeFreqBase, rotary.theta);
  if (keys.Is({"gemma3"})) keys.Number(gguf_key::kRopeFreqBaseSwa, config.rotaries.back().theta);
  switch (rotary.kind) {
    case RopeKind::kLinear:
      keys.String(gguf_key::kRopeScalingType, "linear");
      keys.Number(gguf_key::kRopeScalingFactor, rotary.factor);
      break;
    case RopeKind::kYarn:
      keys.String(gguf_key::kRopeScalingType, "yarn");
      keys.Number(gguf_key::kRopeScalingFactor, rotary.factor);
      keys.Int(gguf_key::kRopeScalingOriginalContextLength,
               static_cast<int64_t>(rotary.original_length));
      keys.Number(gguf_key::kRopeScalingYarnBetaFast, rotary.beta_fast);
      keys.Number(gguf_key::kRopeScalingYarnBetaSlow, rotary.beta_slow);
      if (config.latent.key_value_rank > 0 && rotary.factor > 1)
        keys.Number(gguf_key::kRopeScalingYarnLogMultiplier, YarnLogMultiplier(config));
      break;
    case RopeKind::kLongRope:
      keys.String(gguf_key::kRopeScalingType, "longrope");
      keys.Int(gguf_key::kRopeScalingOriginalContextLength,
               static_cast<int64_t>(rotary.original_length));
      keys.Number(gguf_key::kRopeScalingAttnFactor, rotary.attention_factor);
      break;
    // Llama3's factors are written as a tensor. Any other kind has no key in GGUF; the comparison
    // of configs reports it later.
    default:
      break;
  }
}

// Writes mrope's sections for time, height and width, and 0 for the fourth section that GGUF has.
void WriteSections(const ModelConfig& config, Keys& keys) {
  const nlohmann::json json = nlohmann::json::parse(config.json);
  const nlohmann::json parameters = json.value("rope_parameters", nlohmann::json::object());
  if (!parameters.is_object() || !parameters.contains("mrope_section")) return;
  std::vector<int32_t> sections = parameters["mrope_section"].get<std::vector<int32_t>>();
  sections.resize(4);
  keys.Ints(gguf_key::kRopeDimensionSections, sections);
}

void WriteDelta(const ModelConfig& config, Keys& keys) {
  const DeltaRule& rule = config.delta;
  keys.Int(gguf_key::kSsmConvKernel, rule.taps);
  keys.Int(gguf_key::kSsmStateSize, rule.key_dim);
  keys.Int(gguf_key::kSsmGroupCount, rule.key_heads);
  keys.Int(gguf_key::kSsmTimeStepRank, rule.value_heads);
  keys.Int(gguf_key::kSsmInnerSize, rule.values());
  const auto& layers = config.layer_rules;
  const auto attends = [](const LayerRule& layer) { return layer.attends(); };
  const auto first = std::find_if(layers.begin(), layers.end(), attends);
  keys.Int(gguf_key::kFullAttentionInterval, first - layers.begin() + 1);
  WriteSections(config, keys);
}

void WriteGroupedExperts(const ModelConfig& config, Keys& keys) {
  const ExpertRule& experts = config.experts;
  constexpr int64_t kSoftmax = 1, kSigmoid = 2;
  keys.Int(gguf_key::kExpertGatingFunc,
           experts.score == RouterScore::kSigmoid ? kSigmoid : kSoftmax);
  keys.Int(gguf_key::kExpertGroupCount, experts.groups);
  keys.Int(gguf_key::kExpertGroupUsedCount, experts.chosen_groups);
  keys.Int(gguf_key::kExpertSharedCount, experts.shared / experts.intermediate);
  const auto& layers = config.layer_rules;
  const auto has = [](const LayerRule& layer) { return layer.experts; };
  keys.Int(gguf_key::kLeadingDenseBlockCount,
           std::find_if(layers.begin(), layers.end(), has) - layers.begin());
  keys.Number(gguf_key::kExpertWeightsScale, experts.scale);
  keys.Bool(gguf_key::kExpertWeightsNorm, experts.normalised);
}

void WriteExperts(const ModelConfig& config, Keys& keys) {
  const ExpertRule& experts = config.experts;
  keys.Int(gguf_key::kExpertCount, experts.count);
  keys.Int(gguf_key::kExpertUsedCount, experts.chosen);
  if (!keys.Is({"llama"})) keys.Int(gguf_key::kExpertFeedForwardLength, experts.intermediate);
  if (keys.Is({"deepseek2", "glm4moe"})) return WriteGroupedExperts(config, keys);
  if (experts.shared > 0) keys.Int(gguf_key::kExpertSharedFeedForwardLength, experts.shared);
}

void WriteFamilyKeys(const ModelConfig& config, Keys& keys) {
  if (keys.Is({"gemma2", "gemma3", "phi3", "gpt-oss"})) {
    int64_t window = 0;
    for (const LayerRule& layer : config.layer_rules) window = std::max(window, layer.window);
    if (window > 0) keys.Int(gguf_key::kAttentionSlidingWindow, window);
  }
  if (keys.Is({"gemma2", "gemma3"})) {
    if (config.score_softcap > 0)
      keys.Number(gguf_key::kAttnLogitSoftcapping, config.score_softcap);
    if (config.logit_softcap > 0)
      keys.Number(gguf_key::kFinalLogitSoftcapping, config.logit_softcap);
  }
  if (keys.Is({"granite"})) {
    keys.Number(gguf_key::kAttentionScale, config.score_scale);
    keys.Number(gguf_key::kEmbeddingScale, config.embedding_scale);
    keys.Number(gguf_key::kResidualScale, config.residual_scale);
    keys.Number(gguf_key::kLogitScale, 1.0 / config.logit_scale);  // GGUF divides logits by it
  }
  if (keys.Is({"lfm2"})) keys.Int(gguf_key::kShortconvLCache, config.convolution.taps);
  if (keys.Is({"qwen3next", "qwen35", "qwen35moe"})) WriteDelta(config, keys);
}

GgufTensorToWrite FactorTensor(const char* name, const std::vector<double>& factors) {
  const at::Tensor tensor = at::tensor(factors).to(at::kFloat);
  return {name, {tensor.numel()}, FindGgufType("F32"), {[tensor] { return tensor; }}};
}

}  // namespace

absl::StatusOr<GgufMetadata> ConfigToGguf(const ModelConfig& config) {
  const std::string& architecture = config.family->gguf.architecture;
  if (architecture.empty()) {
    std::vector<std::string> known;
    for (const Family& family : Families()) {
      if (!family.gguf.architecture.empty()) known.push_back(family.architecture);
    }
    return absl::UnimplementedError(absl::StrCat(
        config.architecture,
        " has no form in GGUF that is known here; these have: ", absl::StrJoin(known, ", ")));
  }
  Keys keys(architecture);
  WriteSizes(config, keys);
  WriteHeads(config, keys);
  WriteRotary(config, keys);
  WriteFamilyKeys(config, keys);
  if (config.experts.count > 0) WriteExperts(config, keys);
  GgufMetadata metadata;
  metadata.String("general.architecture", architecture);
  metadata.Add(keys.metadata());
  return metadata;
}

std::vector<GgufTensorToWrite> RotaryTensors(const ModelConfig& config) {
  const RotaryRule& rotary = MainRotary(config);
  if (rotary.kind == RopeKind::kLongRope)
    return {FactorTensor(kRopeLongFactors, rotary.long_factor),
            FactorTensor(kRopeShortFactors, rotary.short_factor)};
  if (rotary.kind != RopeKind::kLlama3) return {};
  const RotaryRule plain{.theta = rotary.theta, .dim = rotary.dim};
  const at::Tensor factors =
      InverseFrequencies(plain, 0, at::kDouble) / InverseFrequencies(rotary, 0, at::kDouble);
  return {FactorTensor(kRopeFrequencies, {factors.const_data_ptr<double>(),
                                          factors.const_data_ptr<double>() + factors.numel()})};
}

}  // namespace moonring::model
