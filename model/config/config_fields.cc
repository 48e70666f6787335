#include "model/config/config_fields.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "model/config/family.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

// For each layer, whether its entry in layer_types is "full_attention" (all other entries must be
// `other`). nullopt if config.json has no layer_types.
absl::StatusOr<std::optional<std::vector<bool>>> Attends(const JsonFields& fields,
                                                         absl::string_view other,
                                                         const ModelConfig& config) {
  const nlohmann::json* types = fields.Find("layer_types");
  if (types == nullptr) return std::nullopt;
  if (!types->is_array() || static_cast<int64_t>(types->size()) != config.layers) {
    return fields.Wrong("layer_types",
                        absl::StrCat("a list of ", config.layers, " names, one for each layer"));
  }
  std::vector<bool> attends;
  for (const nlohmann::json& type : *types) {
    attends.push_back(type == "full_attention");
    if (attends.back() || type == std::string(other)) continue;
    return absl::UnimplementedError(absl::StrCat(
        fields.where(), ": layer_types: layer ", attends.size() - 1, " is ", ShownJson(type),
        ", which is not supported (full_attention and ", other, " are)"));
  }
  return attends;
}

}  // namespace

absl::StatusOr<int64_t> ReadSize(const JsonFields& fields, absl::string_view key,
                                 std::optional<int64_t> otherwise, int64_t most) {
  const nlohmann::json* value = fields.Find(key);
  if (value == nullptr && !otherwise.has_value()) return fields.Missing(key);
  if (value == nullptr) return *otherwise;
  // A whole number written as 8192.0 is accepted, because programs that scale a context length
  // write it so.
  const bool whole = value->is_number_float() &&
                     std::floor(value->get<double>()) == value->get<double>() &&
                     std::abs(value->get<double>()) < 1e15;
  const absl::StatusOr<int64_t> size =
      whole ? static_cast<int64_t>(value->get<double>()) : fields.Int(key);
  RETURN_IF_ERROR(size.status());
  if (*size < 1 || *size > most)
    return fields.Wrong(key, absl::StrCat("a whole number from 1 to ", most));
  return size;
}

absl::StatusOr<double> ReadPositive(const JsonFields& fields, absl::string_view key,
                                    double otherwise) {
  ASSIGN_OR_RETURN(const double value, fields.Number(key, otherwise));
  if (!(value > 0) || !std::isfinite(value)) {
    return absl::InvalidArgumentError(
        absl::StrCat(fields.where(), ": ", key, ": expected a positive number, got ", value));
  }
  return value;
}

absl::StatusOr<double> ReadSoftcap(const JsonFields& fields, absl::string_view key) {
  if (fields.Find(key) == nullptr) return 0.0;
  return ReadPositive(fields, key, 1.0);
}

absl::Status ReadAttentionBias(const JsonFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.qkv_bias, fields.Bool("attention_bias", false));
  config.output_bias = config.qkv_bias;
  return absl::OkStatus();
}

absl::Status ReadActivation(const JsonFields& fields, absl::string_view key,
                            absl::string_view otherwise, ModelConfig& config) {
  ASSIGN_OR_RETURN(const std::string name, fields.String(key, otherwise));
  if (name == "silu" || name == "swish") {
    config.activation = Activation::kSilu;
  } else if (name == "gelu_pytorch_tanh" || name == "gelu_new") {
    config.activation = Activation::kGeluTanh;
  } else if (name == "gelu") {
    config.activation = Activation::kGelu;
  } else if (name == "relu2") {
    config.activation = Activation::kReluSquared;
  } else {
    return absl::UnimplementedError(
        absl::StrCat(fields.where(), ": ", key, ": '", Shown(name),
                     "' is not supported (silu, gelu, gelu_pytorch_tanh and relu2 are)"));
  }
  return absl::OkStatus();
}

absl::Status ReadWindow(const JsonFields& fields, std::optional<int64_t> otherwise,
                        ModelConfig& config) {
  const bool none = fields.Has("sliding_window") ? fields.Find("sliding_window") == nullptr
                                                 : !otherwise.has_value();
  if (none) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t window, ReadSize(fields, "sliding_window", otherwise));
  for (LayerRule& layer : config.layer_rules) layer.window = window;
  return absl::OkStatus();
}

absl::Status ReadLayerTypes(const JsonFields& fields, int64_t window,
                            bool (*slides)(const JsonFields& fields, int64_t layer),
                            ModelConfig& config) {
  ASSIGN_OR_RETURN(const auto attends, Attends(fields, "sliding_attention", config));
  for (int64_t i = 0; i < config.layers; ++i) {
    const bool sliding = attends.has_value() ? !(*attends)[i] : slides(fields, i);
    config.layer_rules[i].window = sliding ? window : 0;
  }
  return absl::OkStatus();
}

absl::Status ReadMixers(const JsonFields& fields, const Mixer& mixer,
                        const std::function<bool(int64_t layer)>& attends, ModelConfig& config) {
  ASSIGN_OR_RETURN(const auto listed, Attends(fields, mixer.layer_type, config));
  for (int64_t i = 0; i < config.layers; ++i) {
    if (listed.has_value() ? (*listed)[i] : attends(i)) continue;
    config.layer_rules[i].mixer = &mixer;
    config.layer_rules[i].rotary = -1;
  }
  return absl::OkStatus();
}

absl::Status CheckDeltaActivation(const JsonFields& fields, const ModelConfig& config) {
  if (config.activation == Activation::kSilu) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      fields.where(),
      ": hidden_act: expected silu, which linear attention takes after its convolution"));
}

absl::Status ReadDeltaRule(const JsonFields& fields, const DeltaSizes& sizes, ModelConfig& config) {
  DeltaRule& rule = config.delta;
  ASSIGN_OR_RETURN(rule.key_heads, ReadSize(fields, "linear_num_key_heads", sizes.key_heads));
  ASSIGN_OR_RETURN(rule.value_heads, ReadSize(fields, "linear_num_value_heads", sizes.value_heads));
  ASSIGN_OR_RETURN(rule.key_dim, ReadSize(fields, "linear_key_head_dim", sizes.key_dim));
  ASSIGN_OR_RETURN(rule.value_dim, ReadSize(fields, "linear_value_head_dim", sizes.value_dim));
  ASSIGN_OR_RETURN(rule.taps, ReadSize(fields, "linear_conv_kernel_dim", 4, kMostTaps));
  rule.norm_eps = config.rms_norm_eps;
  if (rule.value_heads % rule.key_heads != 0) {
    return fields.Wrong("linear_num_value_heads",
                        absl::StrCat("a multiple of linear_num_key_heads ", rule.key_heads));
  }
  if (rule.keys() > kLargestSize / 4 || rule.values() > kLargestSize / 4)
    return fields.Wrong("linear_num_value_heads", "heads x features of a head below 2^29");
  return CheckDeltaActivation(fields, config);
}

absl::StatusOr<int64_t> ReadAttentionInterval(const JsonFields& fields) {
  return ReadSize(fields, "full_attention_interval", 4);
}

absl::Status ReadQwenWindow(const JsonFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const bool used, fields.Bool("use_sliding_window", false));
  if (!used || (fields.Has("sliding_window") && fields.Find("sliding_window") == nullptr))
    return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t window, ReadSize(fields, "sliding_window", 4096));
  const auto slides = [](const JsonFields& read, int64_t layer) {
    return layer >= read.OptionalInt("max_window_layers")->value_or(28);
  };
  RETURN_IF_ERROR(fields.OptionalInt("max_window_layers").status());
  return ReadLayerTypes(fields, window, slides, config);
}

absl::Status ReadQwenExperts(const JsonFields& fields, int64_t count, int64_t chosen,
                             int64_t intermediate, ModelConfig& config) {
  const char* experts = fields.Find("num_experts") == nullptr ? "num_local_experts" : "num_experts";
  ASSIGN_OR_RETURN(config.experts.count, ReadSize(fields, experts, count));
  ASSIGN_OR_RETURN(config.experts.chosen, ReadSize(fields, "num_experts_per_tok", chosen));
  ASSIGN_OR_RETURN(config.experts.intermediate,
                   ReadSize(fields, "moe_intermediate_size", intermediate));
  ASSIGN_OR_RETURN(config.experts.normalised, fields.Bool("norm_topk_prob", false));
  ASSIGN_OR_RETURN(const int64_t every, ReadSize(fields, "decoder_sparse_step", 1));
  std::set<int64_t> dense;
  if (const nlohmann::json* list = fields.Find("mlp_only_layers"); list != nullptr) {
    const absl::Status wrong = fields.Wrong(
        "mlp_only_layers", absl::StrCat("a list of layers from 0 to ", config.layers - 1));
    if (!list->is_array()) return wrong;
    for (const nlohmann::json& layer : *list) {
      if (!layer.is_number_unsigned() ||
          layer.get<uint64_t>() >= static_cast<uint64_t>(config.layers))
        return wrong;
      dense.insert(layer.get<int64_t>());
    }
  }
  for (int64_t i = 0; i < config.layers; ++i)
    config.layer_rules[i].experts = !dense.contains(i) && (i + 1) % every == 0;
  return absl::OkStatus();
}

absl::Status ReadGroupedExperts(const JsonFields& fields, const GroupedExperts& otherwise,
                                ModelConfig& config) {
  ExpertRule& experts = config.experts;
  const ExpertKeys& keys = config.family->expert_keys;
  const char* count = fields.Find(keys.count) == nullptr ? "num_local_experts" : keys.count;
  ASSIGN_OR_RETURN(experts.count, ReadSize(fields, count, otherwise.count));
  ASSIGN_OR_RETURN(experts.chosen, ReadSize(fields, keys.chosen, otherwise.chosen));
  ASSIGN_OR_RETURN(experts.intermediate,
                   ReadSize(fields, "moe_intermediate_size", otherwise.intermediate));
  ASSIGN_OR_RETURN(const std::optional<int64_t> shared, fields.OptionalInt(keys.shared));
  const int64_t shared_experts = fields.Has(keys.shared) ? shared.value_or(0) : 1;
  if (shared_experts < 0 || shared_experts > kLargestSize / experts.intermediate)
    return fields.Wrong(keys.shared, "a whole number, 0 or more");
  experts.shared = shared_experts * experts.intermediate;
  ASSIGN_OR_RETURN(experts.groups, ReadSize(fields, keys.groups, otherwise.groups));
  ASSIGN_OR_RETURN(experts.chosen_groups, ReadSize(fields, "topk_group", otherwise.chosen_groups));
  ASSIGN_OR_RETURN(experts.normalised, fields.Bool(keys.normalised, true));
  ASSIGN_OR_RETURN(experts.scale, ReadPositive(fields, "routed_scaling_factor", otherwise.scale));
  experts.score = RouterScore::kSigmoid;
  experts.wide_router = true;
  ASSIGN_OR_RETURN(const std::optional<int64_t> dense, fields.OptionalInt("first_k_dense_replace"));
  for (int64_t i = 0; i < config.layers; ++i)
    config.layer_rules[i].experts = i >= dense.value_or(otherwise.dense_layers);
  return absl::OkStatus();
}

}  // namespace moonring::model
