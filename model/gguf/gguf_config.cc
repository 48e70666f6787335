#include "model/gguf/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "ATen/TensorOperators.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/status_macros.h"
#include "base/text/nearest_name.h"
#include "base/text/ordered_json.h"
#include "model/blocks/rotary.h"
#include "model/config/block_weights.h"
#include "model/config/family.h"
#include "model/families/families.h"
#include "model/files/json_text.h"
#include "model/files/weight_shape.h"
#include "model/gguf/gguf_keys.h"
#include "model/gguf/gguf_layout.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

using base::OrderedJson;

// Access to the file's metadata; adds the architecture's prefix to keys.
class Metadata {
 public:
  Metadata(const GgufFile& file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)) {}

  const GgufFile& file() const { return file_; }
  const std::string& architecture() const { return architecture_; }
  std::string Key(absl::string_view name) const { return absl::StrCat(architecture_, ".", name); }
  bool Has(absl::string_view name) const { return file_.Has(Key(name)); }
  bool HasTensor(const std::string& name) const { return file_.tensors().contains(name); }

  absl::StatusOr<int64_t> Int(absl::string_view name) const { return file_.Int(Key(name)); }
  absl::StatusOr<int64_t> IntOr(absl::string_view name, int64_t otherwise) const {
    if (!Has(name)) return otherwise;
    return Int(name);
  }
  absl::StatusOr<double> Decimal(absl::string_view name) const {
    ASSIGN_OR_RETURN(const double value, file_.Number(Key(name)));
    return ShortestDecimal(static_cast<float>(value));
  }
  absl::StatusOr<double> DecimalOr(absl::string_view name, double otherwise) const {
    if (!Has(name)) return otherwise;
    return Decimal(name);
  }

  // Copies a value, if present, to a key of config.json.
  absl::Status CopyInt(absl::string_view name, const char* key, OrderedJson& config) const {
    if (!Has(name)) return absl::OkStatus();
    ASSIGN_OR_RETURN(config[key], Int(name));
    return absl::OkStatus();
  }
  absl::Status CopyDecimal(absl::string_view name, const char* key, OrderedJson& config) const {
    if (!Has(name)) return absl::OkStatus();
    ASSIGN_OR_RETURN(config[key], Decimal(name));
    return absl::OkStatus();
  }

 private:
  const GgufFile& file_;
  std::string architecture_;
};

bool HasExperts(const Family& family) {
  return !family.names.expert.empty() || !family.names.in_block[kExpertsGateUp].empty();
}

// Finds the family of a file. Several families may share an architecture name in GGUF: "llama" with
// experts is Mixtral.
absl::StatusOr<const Family*> FindFamily(const GgufFile& file) {
  ASSIGN_OR_RETURN(const absl::string_view name, file.String("general.architecture"));
  int64_t experts = 0;
  if (const std::string key = absl::StrCat(name, ".expert_count"); file.Has(key)) {
    ASSIGN_OR_RETURN(experts, file.Int(key));
  }
  std::vector<std::string> known;
  for (const Family& family : Families()) {
    if (family.gguf.architecture.empty()) continue;
    if (std::find(known.begin(), known.end(), family.gguf.architecture) == known.end())
      known.push_back(family.gguf.architecture);
    if (family.gguf.architecture == name && HasExperts(family) == (experts > 0)) return &family;
  }
  return absl::UnimplementedError(
      absl::StrCat(file.path(), ": general.architecture: '", Shown(name), "'",
                   experts > 0 ? " with experts" : "", " is not supported; supported: ",
                   absl::StrJoin(known, ", "), base::DidYouMean(std::string(name), known)));
}

// The number of the embedding's rows in the file. The counts in the metadata must agree with this
// number, except that a tokenizer may have fewer tokens (padding).
absl::StatusOr<int64_t> VocabularySize(const Metadata& metadata) {
  const GgufFile& file = metadata.file();
  const auto embedding = file.tensors().find("token_embd.weight");
  if (embedding == file.tensors().end())
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": the tensor token_embd.weight is missing"));
  if (embedding->second.shape.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": token_embd.weight: expected [vocab, hidden], got ",
                     ShapeText(embedding->second.shape)));
  }
  const int64_t rows = embedding->second.shape[0];
  ASSIGN_OR_RETURN(const int64_t said, metadata.IntOr(gguf_key::kVocabSize, rows));
  if (said != rows) {
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ",
                                                   metadata.Key(gguf_key::kVocabSize), " is ", said,
                                                   " but token_embd.weight has ", rows, " rows"));
  }
  if (const auto tokens = file.metadata().find("tokenizer.ggml.tokens");
      tokens != file.metadata().end()) {
    const GgufFile::Array* array = std::get_if<GgufFile::Array>(&tokens->second);
    if (array != nullptr && array->count > static_cast<uint64_t>(rows)) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), ": tokenizer.ggml.tokens has ", array->count,
                       " tokens but token_embd.weight only ", rows, " rows"));
    }
  }
  return rows;
}

// LFM2's files store the number of kv heads for each layer, 0 for layers without attention. Sets
// the list of attention layers in `config`, and returns the number of kv heads of these layers.
absl::StatusOr<int64_t> AddAttendingLayers(const Metadata& metadata, OrderedJson& config) {
  const std::string key = metadata.Key(gguf_key::kAttentionHeadCountKv);
  ASSIGN_OR_RETURN(const std::vector<int64_t> listed, metadata.file().Ints(key));
  int64_t heads = 0;
  config["full_attn_idxs"] = OrderedJson::array();
  for (size_t layer = 0; layer < listed.size(); ++layer) {
    if (listed[layer] == 0) continue;
    if (listed[layer] < 0 || (heads != 0 && listed[layer] != heads)) {
      return absl::UnimplementedError(absl::StrCat(metadata.file().path(), ": ", key,
                                                   ": layers of different numbers of heads are "
                                                   "not supported"));
    }
    heads = listed[layer];
    config["full_attn_idxs"].push_back(layer);
  }
  return std::max<int64_t>(heads, 1);
}

// Reads the sizes of latent attention. Newer files have them twice: as llama.cpp computes it, with
// one key head of the latent's width; and, under keys with "_mla", as the model was trained.
absl::Status AddLatentHeads(const Metadata& metadata, int64_t heads, OrderedJson& config) {
  const bool twice = metadata.Has(gguf_key::kAttentionKeyLengthMla);
  ASSIGN_OR_RETURN(const int64_t key_dim, metadata.Int(twice ? gguf_key::kAttentionKeyLengthMla
                                                             : gguf_key::kAttentionKeyLength));
  ASSIGN_OR_RETURN(config["v_head_dim"], metadata.Int(twice ? gguf_key::kAttentionValueLengthMla
                                                            : gguf_key::kAttentionValueLength));
  ASSIGN_OR_RETURN(const int64_t rotary_dim, metadata.Int(gguf_key::kRopeDimensionCount));
  if (rotary_dim < 1 || rotary_dim >= key_dim) {
    return absl::InvalidArgumentError(
        absl::StrCat(metadata.file().path(), ": ", metadata.Key(gguf_key::kRopeDimensionCount), " ",
                     rotary_dim, ": expected a positive number below the keys' ", key_dim));
  }
  config["num_key_value_heads"] = heads;
  config["head_dim"] = rotary_dim;
  config["qk_rope_head_dim"] = rotary_dim;
  config["qk_nope_head_dim"] = key_dim - rotary_dim;
  config["qk_head_dim"] = key_dim;
  config["rope_interleave"] = true;
  config["q_lora_rank"] = nullptr;
  RETURN_IF_ERROR(metadata.CopyInt(gguf_key::kAttentionQLoraRank, "q_lora_rank", config));
  ASSIGN_OR_RETURN(config["kv_lora_rank"], metadata.Int(gguf_key::kAttentionKvLoraRank));
  return absl::OkStatus();
}

// Whether the architecture has gated delta rule layers in addition to attention.
bool IsDelta(const Metadata& metadata) {
  const std::string& name = metadata.architecture();
  return name == "qwen3next" || name == "qwen35" || name == "qwen35moe";
}

absl::Status AddDelta(const Metadata& metadata, OrderedJson& config) {
  const std::string& path = metadata.file().path();
  ASSIGN_OR_RETURN(const int64_t heads, metadata.Int(gguf_key::kSsmTimeStepRank));
  ASSIGN_OR_RETURN(const int64_t width, metadata.Int(gguf_key::kSsmInnerSize));
  if (heads < 1 || width % heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": ", metadata.Key(gguf_key::kSsmInnerSize), " ", width, ": expected a multiple of ",
        metadata.Key(gguf_key::kSsmTimeStepRank), " ", heads));
  }
  config["linear_num_value_heads"] = heads;
  config["linear_value_head_dim"] = width / heads;
  ASSIGN_OR_RETURN(config["linear_num_key_heads"], metadata.Int(gguf_key::kSsmGroupCount));
  ASSIGN_OR_RETURN(config["linear_key_head_dim"], metadata.Int(gguf_key::kSsmStateSize));
  ASSIGN_OR_RETURN(config["linear_conv_kernel_dim"], metadata.Int(gguf_key::kSsmConvKernel));
  ASSIGN_OR_RETURN(const int64_t every, metadata.IntOr(gguf_key::kFullAttentionInterval, 4));
  if (every < 1) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ",
                                                   metadata.Key(gguf_key::kFullAttentionInterval),
                                                   " is ", every, ": expected 1 or more"));
  }
  if (metadata.Has("attention.recurrent_layers")) {
    return absl::UnimplementedError(
        absl::StrCat(path, ": ", metadata.Key("attention.recurrent_layers"),
                     ": a list of layers is not supported, but every so many that attend"));
  }
  config["layer_types"] = OrderedJson::array();
  for (int64_t layer = 0; layer < config["num_hidden_layers"].get<int64_t>(); ++layer) {
    config["layer_types"].push_back((layer + 1) % every == 0 ? "full_attention"
                                                             : "linear_attention");
  }
  if (metadata.architecture() == "qwen3next") return absl::OkStatus();
  // Written in the form of Transformers 5, the only version that has this family. Its rotary
  // embedding uses three positions (time, height, width), which are equal for text.
  OrderedJson parameters = {{"rope_type", "default"}};
  if (config["rope_scaling"].is_object()) parameters = config["rope_scaling"];
  for (const char* key : {"rope_theta", "partial_rotary_factor"}) parameters[key] = config[key];
  for (const char* key : {"rope_theta", "partial_rotary_factor", "rope_scaling"}) config.erase(key);
  config["rope_parameters"] = std::move(parameters);
  if (!metadata.Has(gguf_key::kRopeDimensionSections)) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::vector<int64_t> sections,
                   metadata.file().Ints(metadata.Key(gguf_key::kRopeDimensionSections)));
  if (sections.size() > 3) sections.resize(3);
  config["rope_parameters"]["mrope_section"] = sections;
  config["rope_parameters"]["mrope_interleaved"] = true;
  return absl::OkStatus();
}

absl::Status AddHeads(const Metadata& metadata, const Family& family, int64_t hidden, int64_t heads,
                      OrderedJson& config) {
  ASSIGN_OR_RETURN(const int64_t kv_heads,
                   family.model_type == "lfm2"
                       ? AddAttendingLayers(metadata, config)
                       : metadata.IntOr(gguf_key::kAttentionHeadCountKv, heads));
  ASSIGN_OR_RETURN(const int64_t head_dim,
                   metadata.IntOr(gguf_key::kAttentionKeyLength, hidden / heads));
  ASSIGN_OR_RETURN(const int64_t value_dim,
                   metadata.IntOr(gguf_key::kAttentionValueLength, head_dim));
  ASSIGN_OR_RETURN(const int64_t rotary_dim,
                   metadata.IntOr(gguf_key::kRopeDimensionCount, head_dim));
  const std::string& name = metadata.architecture();
  const bool partial = name == "phi3" || name == "glm4" || name == "glm4moe" || IsDelta(metadata);
  if (value_dim != head_dim || (rotary_dim != head_dim && !partial)) {
    return absl::UnimplementedError(absl::StrCat(
        metadata.file().path(), ": heads of ", head_dim, " for keys, ", value_dim, " for values, ",
        rotary_dim, " of them rotary: unequal sizes are not supported"));
  }
  config["num_key_value_heads"] = kv_heads;
  if (name != "phi3" || head_dim * heads != hidden) config["head_dim"] = head_dim;
  if (partial)
    config["partial_rotary_factor"] =
        static_cast<double>(rotary_dim) / static_cast<double>(head_dim);
  return absl::OkStatus();
}

absl::Status AddSizes(const Metadata& metadata, const Family& family, OrderedJson& config) {
  const std::string& path = metadata.file().path();
  ASSIGN_OR_RETURN(const int64_t hidden, metadata.Int(gguf_key::kEmbeddingLength));
  ASSIGN_OR_RETURN(const int64_t heads, metadata.Int(gguf_key::kAttentionHeadCount));
  if (hidden < 1 || heads < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": ", metadata.Key(gguf_key::kEmbeddingLength), " ", hidden, " and ",
        metadata.Key(gguf_key::kAttentionHeadCount), " ", heads, ": expected positive numbers"));
  }
  config["hidden_size"] = hidden;
  // If no layer has a dense MLP, a file may lack the dense size.
  const bool dense = metadata.Has(gguf_key::kFeedForwardLength) || !HasExperts(family);
  ASSIGN_OR_RETURN(
      config["intermediate_size"],
      metadata.Int(dense ? gguf_key::kFeedForwardLength : gguf_key::kExpertFeedForwardLength));
  ASSIGN_OR_RETURN(const int64_t blocks, metadata.Int(gguf_key::kBlockCount));
  ASSIGN_OR_RETURN(const int64_t predicting, PredictingLayers(metadata.file()));
  config["num_hidden_layers"] = blocks < predicting ? 0 : blocks - predicting;
  config["num_attention_heads"] = heads;
  RETURN_IF_ERROR(family.model_type == "deepseek_v3"
                      ? AddLatentHeads(metadata, heads, config)
                      : AddHeads(metadata, family, hidden, heads, config));
  ASSIGN_OR_RETURN(config["max_position_embeddings"], metadata.Int(gguf_key::kContextLength));
  ASSIGN_OR_RETURN(config[family.eps_key],
                   metadata.Decimal(gguf_key::kAttentionLayerNormRmsEpsilon));
  ASSIGN_OR_RETURN(config["rope_theta"], metadata.DecimalOr(gguf_key::kRopeFreqBase, 10000.0));
  config["rope_scaling"] = nullptr;
  config["initializer_range"] =
      HasExperts(family) ? 0.02 : 1.0 / std::sqrt(static_cast<double>(hidden));
  return absl::OkStatus();
}

// Reads a tensor of factors, one per rotated pair of features.
absl::StatusOr<std::vector<float>> Factors(const GgufFile& file, const std::string& tensor) {
  ASSIGN_OR_RETURN(const at::Tensor stored, file.Read(tensor));
  const at::Tensor factors = stored.to(at::kFloat).contiguous();
  return std::vector<float>(factors.const_data_ptr<float>(),
                            factors.const_data_ptr<float>() + factors.numel());
}

// Adds a rope scaling of type llama3. The file has llama3's factors but not the constants from
// which they were computed. So `factor` is the largest of the factors, the other constants are
// those of the published Llama 3.1 to 3.3, and it is checked that they give the same factors.
absl::Status AddLlama3(const Metadata& metadata, OrderedJson& config) {
  const GgufFile& file = metadata.file();
  ASSIGN_OR_RETURN(const std::vector<float> found, Factors(file, kRopeFrequencies));
  RotaryRule rule{.kind = RopeKind::kLlama3,
                  .theta = config["rope_theta"],
                  .dim = 2 * static_cast<int64_t>(found.size()),
                  .original_length = 8192};
  for (const float factor : found) rule.factor = std::max(rule.factor, static_cast<double>(factor));
  const RotaryRule plain{.theta = rule.theta, .dim = rule.dim};
  const at::Tensor wanted =
      InverseFrequencies(plain, 0, at::kDouble) / InverseFrequencies(rule, 0, at::kDouble);
  for (size_t f = 0; f < found.size(); ++f) {
    if (std::abs(wanted[static_cast<int64_t>(f)].item<double>() - found[f]) <= 1e-3 * found[f])
      continue;
    return absl::UnimplementedError(absl::StrCat(
        file.path(), ": ", kRopeFrequencies, ": factors that are not llama3's with factor ",
        rule.factor, " over 8192 positions are not supported"));
  }
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", rule.factor},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 8192}};
  return absl::OkStatus();
}

absl::Status AddRopeScaling(const Metadata& metadata, OrderedJson& config) {
  const GgufFile& file = metadata.file();
  if (metadata.HasTensor(kRopeFrequencies)) return AddLlama3(metadata, config);
  if (metadata.HasTensor(kRopeLongFactors)) {
    ASSIGN_OR_RETURN(const std::vector<float> longer, Factors(file, kRopeLongFactors));
    ASSIGN_OR_RETURN(const std::vector<float> shorter, Factors(file, kRopeShortFactors));
    OrderedJson scaling = {{"type", "longrope"},
                           {"short_factor", OrderedJson::array()},
                           {"long_factor", OrderedJson::array()}};
    for (const float factor : shorter) scaling["short_factor"].push_back(ShortestDecimal(factor));
    for (const float factor : longer) scaling["long_factor"].push_back(ShortestDecimal(factor));
    config["rope_scaling"] = scaling;
    return metadata.CopyInt(gguf_key::kRopeScalingOriginalContextLength,
                            "original_max_position_embeddings", config);
  }
  if (!metadata.Has(gguf_key::kRopeScalingType)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const absl::string_view type,
                   file.String(metadata.Key(gguf_key::kRopeScalingType)));
  if (type == "none") return absl::OkStatus();
  if (type != "linear" && type != "yarn") {
    return absl::UnimplementedError(
        absl::StrCat(file.path(), ": ", metadata.Key(gguf_key::kRopeScalingType), ": '",
                     Shown(type), "' is not supported (none, linear, yarn)"));
  }
  OrderedJson scaling = {{"rope_type", std::string(type)}};
  ASSIGN_OR_RETURN(scaling["factor"], metadata.Decimal(gguf_key::kRopeScalingFactor));
  if (type == "yarn") {
    RETURN_IF_ERROR(metadata.CopyInt(gguf_key::kRopeScalingOriginalContextLength,
                                     "original_max_position_embeddings", scaling));
    RETURN_IF_ERROR(metadata.CopyDecimal(gguf_key::kRopeScalingYarnBetaFast, "beta_fast", scaling));
    RETURN_IF_ERROR(metadata.CopyDecimal(gguf_key::kRopeScalingYarnBetaSlow, "beta_slow", scaling));
    if (metadata.architecture() == "gpt-oss") scaling["truncate"] = false;
    // The key has a tenth of mscale_all_dim; llama.cpp supports only models whose mscale equals
    // mscale_all_dim.
    if (metadata.architecture() == "deepseek2" &&
        metadata.Has(gguf_key::kRopeScalingYarnLogMultiplier)) {
      ASSIGN_OR_RETURN(const double tenth,
                       metadata.Decimal(gguf_key::kRopeScalingYarnLogMultiplier));
      scaling["mscale"] = ShortestDecimal(static_cast<float>(10 * tenth));
      scaling["mscale_all_dim"] = scaling["mscale"].get<double>();
    }
  }
  config["rope_scaling"] = scaling;
  return absl::OkStatus();
}

// Adds the keys that only some families have. A GGUF file has such a key only if its family has it.
absl::Status AddFamilyKeys(const Metadata& metadata, const Family& family, OrderedJson& config) {
  const absl::string_view name = family.model_type;
  RETURN_IF_ERROR(metadata.CopyInt(gguf_key::kAttentionSlidingWindow, "sliding_window", config));
  if (name == "gemma") config["hidden_act"] = "gelu_pytorch_tanh";
  if (name == "gemma2" || name == "gemma3_text") {
    config["hidden_activation"] = "gelu_pytorch_tanh";
    config.erase("hidden_act");
    // The file does not contain query_pre_attn_scalar. It equals head_dim, except in two models,
    // which llama.cpp too identifies by their number of layers.
    const bool by_width = (name == "gemma2" && config["num_hidden_layers"] == 46) ||
                          (name == "gemma3_text" && config["num_hidden_layers"] == 62);
    const int64_t width = config["hidden_size"], heads = config["num_attention_heads"];
    config["query_pre_attn_scalar"] = by_width ? width / heads : config["head_dim"].get<int64_t>();
    config["attn_logit_softcapping"] = config["final_logit_softcapping"] = nullptr;
    RETURN_IF_ERROR(
        metadata.CopyDecimal(gguf_key::kAttnLogitSoftcapping, "attn_logit_softcapping", config));
    RETURN_IF_ERROR(
        metadata.CopyDecimal(gguf_key::kFinalLogitSoftcapping, "final_logit_softcapping", config));
  }
  if (name == "gemma3_text") {
    config["sliding_window_pattern"] = 6;
    config["rope_local_base_freq"] = 10000.0;
    if (!metadata.Has(gguf_key::kRopeFreqBase)) config["rope_theta"] = 1000000.0;
  }
  if (name == "granite") {
    RETURN_IF_ERROR(
        metadata.CopyDecimal(gguf_key::kAttentionScale, "attention_multiplier", config));
    RETURN_IF_ERROR(
        metadata.CopyDecimal(gguf_key::kEmbeddingScale, "embedding_multiplier", config));
    RETURN_IF_ERROR(metadata.CopyDecimal(gguf_key::kResidualScale, "residual_multiplier", config));
    RETURN_IF_ERROR(metadata.CopyDecimal(gguf_key::kLogitScale, "logits_scaling", config));
  }
  if (name == "lfm2") {
    // The file has the MLP's final size, to which config.json's adjustment must not be applied.
    config["block_auto_adjust_ff_dim"] = false;
    RETURN_IF_ERROR(metadata.CopyInt(gguf_key::kShortconvLCache, "conv_L_cache", config));
    const auto& tensors = metadata.file().tensors();
    config["conv_bias"] = std::any_of(tensors.begin(), tensors.end(), [](const auto& tensor) {
      return absl::EndsWith(tensor.first, ".shortconv.conv.bias");
    });
  }
  if (IsDelta(metadata)) RETURN_IF_ERROR(AddDelta(metadata, config));
  if (name == "glm4_moe") config["use_qk_norm"] = metadata.HasTensor("blk.0.attn_q_norm.weight");
  return absl::OkStatus();
}

// Adds the keys of a mixture of experts with DeepSeek-V3's router.
absl::Status AddGroupedExperts(const Metadata& metadata, OrderedJson& config) {
  constexpr int64_t kSoftmax = 1, kSigmoid = 2;
  const bool deepseek = metadata.architecture() == "deepseek2";
  // Of the deepseek2 files, only those of DeepSeek-V2 (softmax router) lack the key; files of
  // GLM-4.5 (sigmoid router) may lack it.
  ASSIGN_OR_RETURN(const int64_t score,
                   metadata.IntOr(gguf_key::kExpertGatingFunc, deepseek ? kSoftmax : kSigmoid));
  if (score != kSigmoid) {
    return absl::UnimplementedError(
        absl::StrCat(metadata.file().path(), ": ", metadata.Key(gguf_key::kExpertGatingFunc),
                     " is ", score, ": routers of another score than sigmoid's, ", kSigmoid,
                     ", are not supported (DeepSeek-V2 has such)"));
  }
  // Older files of DeepSeek lack the groups, which cannot be inferred.
  ASSIGN_OR_RETURN(config["n_group"], deepseek ? metadata.Int(gguf_key::kExpertGroupCount)
                                               : metadata.IntOr(gguf_key::kExpertGroupCount, 1));
  ASSIGN_OR_RETURN(config["topk_group"], deepseek
                                             ? metadata.Int(gguf_key::kExpertGroupUsedCount)
                                             : metadata.IntOr(gguf_key::kExpertGroupUsedCount, 1));
  ASSIGN_OR_RETURN(config["n_shared_experts"], metadata.IntOr(gguf_key::kExpertSharedCount, 0));
  ASSIGN_OR_RETURN(config["first_k_dense_replace"],
                   metadata.IntOr(gguf_key::kLeadingDenseBlockCount, 0));
  ASSIGN_OR_RETURN(config["routed_scaling_factor"],
                   metadata.DecimalOr(gguf_key::kExpertWeightsScale, 1.0));
  config["norm_topk_prob"] = false;
  if (metadata.Has(gguf_key::kExpertWeightsNorm)) {
    ASSIGN_OR_RETURN(config["norm_topk_prob"],
                     metadata.file().Bool(metadata.Key(gguf_key::kExpertWeightsNorm)));
  }
  return absl::OkStatus();
}

absl::Status AddExperts(const Metadata& metadata, const Family& family, OrderedJson& config) {
  const absl::string_view name = family.model_type;
  const bool grouped = name == "glm4_moe" || name == "deepseek_v3";
  const char* const count = grouped                                  ? "n_routed_experts"
                            : name == "mixtral" || name == "gpt_oss" ? "num_local_experts"
                                                                     : "num_experts";
  RETURN_IF_ERROR(metadata.CopyInt(gguf_key::kExpertCount, count, config));
  RETURN_IF_ERROR(metadata.CopyInt(gguf_key::kExpertUsedCount, "num_experts_per_tok", config));
  RETURN_IF_ERROR(
      metadata.CopyInt(gguf_key::kExpertFeedForwardLength,
                       name == "gpt_oss" ? "intermediate_size" : "moe_intermediate_size", config));
  if (grouped) return AddGroupedExperts(metadata, config);
  RETURN_IF_ERROR(metadata.CopyInt(gguf_key::kExpertSharedFeedForwardLength,
                                   "shared_expert_intermediate_size", config));
  if (name == "qwen3_moe") config["norm_topk_prob"] = true;
  return absl::OkStatus();
}

absl::Status AddTokens(const Metadata& metadata, int64_t vocabulary, OrderedJson& config) {
  constexpr std::pair<const char*, const char*> kKeys[] = {
      {"bos_token_id", "bos"}, {"eos_token_id", "eos"}, {"pad_token_id", "padding"}};
  const GgufFile& file = metadata.file();
  for (const auto& [name, gguf] : kKeys) {
    const std::string key = absl::StrCat("tokenizer.ggml.", gguf, "_token_id");
    config[name] = nullptr;
    if (!file.Has(key)) continue;
    ASSIGN_OR_RETURN(const int64_t id, file.Int(key));
    if (id >= vocabulary) {
      return absl::InvalidArgumentError(absl::StrCat(
          file.path(), ": ", key, " ", id, " is not below the vocabulary's size ", vocabulary));
    }
    if (id >= 0) config[name] = id;
  }
  return absl::OkStatus();
}

}  // namespace

double ShortestDecimal(float value) {
  for (int digits = 1; digits < 9; ++digits) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.*g", digits, static_cast<double>(value));
    if (std::strtof(text, nullptr) == value) return std::strtod(text, nullptr);
  }
  return static_cast<double>(value);
}

absl::StatusOr<int64_t> PredictingLayers(const GgufFile& file) {
  ASSIGN_OR_RETURN(const absl::string_view architecture, file.String("general.architecture"));
  const std::string key = absl::StrCat(architecture, ".nextn_predict_layers");
  if (!file.Has(key)) return 0;
  ASSIGN_OR_RETURN(const int64_t layers, file.Int(key));
  if (layers >= 0) return layers;
  return absl::InvalidArgumentError(
      absl::StrCat(file.path(), ": ", key, " is ", layers, ": expected 0 or more"));
}

absl::StatusOr<std::string> ConfigFromGguf(const GgufFile& file) {
  ASSIGN_OR_RETURN(const Family* family, FindFamily(file));
  const Metadata metadata(file, family->gguf.architecture);
  ASSIGN_OR_RETURN(const int64_t vocabulary, VocabularySize(metadata));
  OrderedJson config = {{"architectures", {family->architecture}},
                        {"model_type", family->model_type}};
  const bool bias = file.tensors().contains("blk.0.attn_q.bias") ||
                    file.tensors().contains("blk.0.attn_kv_a_mqa.bias");
  const char* const qkv_bias = family->model_type == "internlm2"   ? "bias"
                               : family->model_type == "qwen2_moe" ? "qkv_bias"
                                                                   : "attention_bias";
  config[qkv_bias] = bias;
  config["attention_dropout"] = 0.0;
  config["mlp_bias"] = file.tensors().contains("blk.0.ffn_gate.bias");
  config["hidden_act"] = "silu";
  RETURN_IF_ERROR(AddSizes(metadata, *family, config));
  RETURN_IF_ERROR(AddRopeScaling(metadata, config));
  RETURN_IF_ERROR(AddFamilyKeys(metadata, *family, config));
  if (HasExperts(*family)) RETURN_IF_ERROR(AddExperts(metadata, *family, config));
  config["tie_word_embeddings"] = !file.tensors().contains("output.weight");
  config["vocab_size"] = vocabulary;
  RETURN_IF_ERROR(AddTokens(metadata, vocabulary, config));
  config["torch_dtype"] = "float32";
  config["use_cache"] = true;
  return config.dump(2) + "\n";
}

}  // namespace moonring::model
