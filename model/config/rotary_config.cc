#include "model/config/rotary_config.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/status_macros.h"
#include "base/text/nearest_name.h"
#include "model/config/config_fields.h"
#include "model/config/family.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

absl::StatusOr<RopeKind> ReadKind(const JsonFields& scaling) {
  ASSIGN_OR_RETURN(const std::string old_name, scaling.String("type", "default"));
  ASSIGN_OR_RETURN(std::string name, scaling.String("rope_type", old_name));
  if (name == "su") name = "longrope";
  std::vector<std::string> known;
  for (int kind = 0; kind <= static_cast<int>(RopeKind::kProportional); ++kind) {
    known.emplace_back(RopeName(RopeKind(kind)));
    if (name == known.back()) return RopeKind(kind);
  }
  return absl::UnimplementedError(absl::StrCat(
      scaling.where(), ": rope_type: '", Shown(name),
      "' is not known; known: ", absl::StrJoin(known, ", "), base::DidYouMean(name, known)));
}

absl::StatusOr<std::vector<double>> ReadFactors(const JsonFields& scaling, absl::string_view key,
                                                int64_t pairs) {
  const nlohmann::json* list = scaling.Find(key);
  const std::string wanted =
      absl::StrCat("a list of ", pairs, " positive numbers, one for each rotated pair of features");
  if (list == nullptr || !list->is_array() || static_cast<int64_t>(list->size()) != pairs)
    return scaling.Wrong(key, wanted);
  std::vector<double> factors;
  for (const nlohmann::json& factor : *list) {
    if (!factor.is_number() || !(factor.get<double>() > 0)) return scaling.Wrong(key, wanted);
    factors.push_back(factor.get<double>());
  }
  return factors;
}

// YaRN's factor of cosines and sines (section 3.4 of its paper): 0.1 scale ln(factor) + 1, where
// `scale` is the config's mscale.
double YarnMagnitude(double factor, double scale) {
  return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
}

absl::Status ReadYarn(const JsonFields& scaling, RotaryRule& rule) {
  ASSIGN_OR_RETURN(rule.beta_fast, ReadPositive(scaling, "beta_fast", 32.0));
  ASSIGN_OR_RETURN(rule.beta_slow, ReadPositive(scaling, "beta_slow", 1.0));
  ASSIGN_OR_RETURN(rule.truncate, scaling.Bool("truncate", true));
  ASSIGN_OR_RETURN(const double scale, scaling.Number("mscale", 0.0));
  ASSIGN_OR_RETURN(const double scale_all, scaling.Number("mscale_all_dim", 0.0));
  const bool both = scale != 0.0 && scale_all != 0.0;
  rule.attention_factor =
      both ? YarnMagnitude(rule.factor, scale) / YarnMagnitude(rule.factor, scale_all)
           : YarnMagnitude(rule.factor, 1.0);
  ASSIGN_OR_RETURN(rule.attention_factor,
                   ReadPositive(scaling, "attention_factor", rule.attention_factor));
  return absl::OkStatus();
}

absl::Status ReadLlama3(const JsonFields& scaling, RotaryRule& rule) {
  if (scaling.Find("original_max_position_embeddings") == nullptr)
    return scaling.Missing("original_max_position_embeddings");
  ASSIGN_OR_RETURN(rule.low_freq_factor, ReadPositive(scaling, "low_freq_factor", 1.0));
  ASSIGN_OR_RETURN(rule.high_freq_factor, ReadPositive(scaling, "high_freq_factor", 4.0));
  if (rule.high_freq_factor <= rule.low_freq_factor) {
    return scaling.Wrong("high_freq_factor",
                         absl::StrCat("a number above low_freq_factor ", rule.low_freq_factor));
  }
  return absl::OkStatus();
}

// Reads longrope. Transformers reads original_max_position_embeddings from the top level of
// config.json, not from rope_scaling, and the factor is max_position_embeddings divided by it.
// Transformers 5 reads the length and the factor from rope_parameters if the top level lacks them
// (in families that write the length there).
absl::Status ReadLongRope(const JsonFields& scaling, const JsonFields& fields,
                          const ModelConfig& config, RotaryRule& rule) {
  constexpr char kKey[] = "original_max_position_embeddings";
  const bool newer = fields.Find("rope_scaling") == nullptr;
  const double longest = static_cast<double>(config.max_position_embeddings);
  double otherwise = static_cast<double>(config.family->original_max_position_embeddings);
  const bool above = otherwise > 0 || fields.Find(kKey) != nullptr;
  if (!above) otherwise = longest;
  if (!above && newer) {
    ASSIGN_OR_RETURN(otherwise, ReadPositive(scaling, kKey, longest));
  }
  ASSIGN_OR_RETURN(rule.original_length, ReadPositive(fields, kKey, otherwise));
  rule.factor = longest / rule.original_length;
  if (!above || newer) {
    ASSIGN_OR_RETURN(rule.factor, ReadPositive(scaling, "factor", newer ? rule.factor : 1.0));
  }
  const double magnitude =
      rule.factor <= 1 ? 1.0
                       : std::sqrt(1 + std::log(rule.factor) / std::log(rule.original_length));
  ASSIGN_OR_RETURN(rule.attention_factor, ReadPositive(scaling, "attention_factor", magnitude));
  ASSIGN_OR_RETURN(rule.short_factor, ReadFactors(scaling, "short_factor", rule.dim / 2));
  ASSIGN_OR_RETURN(rule.long_factor, ReadFactors(scaling, "long_factor", rule.dim / 2));
  return absl::OkStatus();
}

// The JSON object under `key`, as JsonFields whose error messages include the key; nullopt if there
// is no such object.
absl::StatusOr<std::optional<JsonFields>> Object(const JsonFields& fields, absl::string_view key) {
  const nlohmann::json* object = fields.Find(key);
  if (object == nullptr) return std::nullopt;
  if (!object->is_object()) return fields.Wrong(key, "an object");
  return JsonFields(*object, absl::StrCat(fields.where(), ": ", key));
}

// The object rope_parameters. If the layers have different rotary embeddings (Gemma 3),
// Transformers 5 writes an object for each kind of layer; then the one of full_attention is
// returned.
absl::StatusOr<std::optional<JsonFields>> Parameters(const JsonFields& fields) {
  ASSIGN_OR_RETURN(std::optional<JsonFields> parameters, Object(fields, "rope_parameters"));
  if (!parameters.has_value() || parameters->Find("full_attention") == nullptr) return parameters;
  return Object(*parameters, "full_attention");
}

absl::StatusOr<double> ReadTheta(const JsonFields& fields,
                                 const std::optional<JsonFields>& parameters, double otherwise) {
  const bool nested = parameters.has_value() && parameters->Find("rope_theta") != nullptr;
  double inside = otherwise;
  if (nested) {
    ASSIGN_OR_RETURN(inside, ReadPositive(*parameters, "rope_theta", otherwise));
  }
  ASSIGN_OR_RETURN(const double theta, ReadPositive(fields, "rope_theta", inside));
  if (nested && inside != theta) {
    return absl::InvalidArgumentError(absl::StrCat(fields.where(), ": rope_theta is ", theta,
                                                   " at the top level but ", inside,
                                                   " in rope_parameters"));
  }
  return theta;
}

}  // namespace

absl::Status ReadRopeScaling(const JsonFields& scaling, const JsonFields& fields,
                             const ModelConfig& config, RotaryRule& rule) {
  ASSIGN_OR_RETURN(rule.kind, ReadKind(scaling));
  if (rule.kind == RopeKind::kDefault) return absl::OkStatus();
  if (rule.kind == RopeKind::kLongRope) return ReadLongRope(scaling, fields, config, rule);
  if (rule.kind == RopeKind::kProportional) {
    ASSIGN_OR_RETURN(rule.factor, ReadPositive(scaling, "factor", 1.0));
    ASSIGN_OR_RETURN(const double partial, ReadPositive(scaling, "partial_rotary_factor", 1.0));
    if (partial > 1) return scaling.Wrong("partial_rotary_factor", "a number above 0, at most 1");
    // Only some pairs are rotated, but a pair consists of both halves of the whole head.
    rule.dim = config.head_dim;
    rule.turning_pairs = static_cast<int64_t>(static_cast<double>(rule.dim) * partial / 2);
    return absl::OkStatus();
  }
  if (scaling.Find("factor") == nullptr) return scaling.Missing("factor");
  ASSIGN_OR_RETURN(rule.factor, ReadPositive(scaling, "factor", 1.0));
  rule.original_length = static_cast<double>(config.max_position_embeddings);
  if (rule.kind == RopeKind::kLinear) return absl::OkStatus();
  // The type "dynamic" uses max_position_embeddings as the original length, and ignores
  // original_max_position_embeddings.
  if (rule.kind == RopeKind::kDynamic) {
    if (rule.dim > 2) return absl::OkStatus();
    return scaling.Wrong("rope_type",
                         "another type than dynamic, which is undefined for two rotated features");
  }
  ASSIGN_OR_RETURN(rule.original_length,
                   ReadPositive(scaling, "original_max_position_embeddings", rule.original_length));
  return rule.kind == RopeKind::kYarn ? ReadYarn(scaling, rule) : ReadLlama3(scaling, rule);
}

absl::StatusOr<RotaryRule> ReadRotary(const JsonFields& fields, const ModelConfig& config) {
  const Family& family = *config.family;
  ASSIGN_OR_RETURN(const std::optional<JsonFields> parameters, Parameters(fields));
  ASSIGN_OR_RETURN(const std::optional<JsonFields> scaling, Object(fields, "rope_scaling"));
  RotaryRule rule;
  ASSIGN_OR_RETURN(rule.theta, ReadTheta(fields, parameters, family.rope_theta));
  double partial = family.partial_rotary_factor;
  if (parameters.has_value()) {
    ASSIGN_OR_RETURN(partial, ReadPositive(*parameters, "partial_rotary_factor", partial));
  }
  ASSIGN_OR_RETURN(partial, ReadPositive(fields, "partial_rotary_factor", partial));
  rule.dim = static_cast<int64_t>(static_cast<double>(config.head_dim) * partial);
  const std::optional<JsonFields>& chosen = scaling.has_value() ? scaling : parameters;
  const nlohmann::json* kind = chosen.has_value() ? chosen->Find("rope_type") : nullptr;
  const bool proportional =
      kind != nullptr && *kind == std::string(RopeName(RopeKind::kProportional));
  if (proportional && config.head_dim % 2 == 0) rule.dim = config.head_dim;
  if (rule.dim < 2 || rule.dim % 2 != 0 || rule.dim > config.head_dim) {
    return absl::InvalidArgumentError(
        absl::StrCat(fields.where(), ": head_dim: ", rule.dim, " of ", config.head_dim,
                     " features of a head would be rotated, expected an even number (rotary "
                     "embedding rotates pairs)"));
  }
  if (chosen.has_value()) RETURN_IF_ERROR(ReadRopeScaling(*chosen, fields, config, rule));
  return rule;
}

absl::StatusOr<double> ReadScoreMagnitude(const JsonFields& fields) {
  ASSIGN_OR_RETURN(const std::optional<JsonFields> older, Object(fields, "rope_scaling"));
  ASSIGN_OR_RETURN(const std::optional<JsonFields> newer, Parameters(fields));
  const std::optional<JsonFields>& scaling = older.has_value() ? older : newer;
  if (!scaling.has_value()) return 1.0;
  ASSIGN_OR_RETURN(const RopeKind kind, ReadKind(*scaling));
  ASSIGN_OR_RETURN(const double scale, scaling->Number("mscale_all_dim", 0.0));
  if (kind == RopeKind::kDefault || scale == 0.0) return 1.0;
  ASSIGN_OR_RETURN(const double factor, ReadPositive(*scaling, "factor", 1.0));
  const double magnitude = YarnMagnitude(factor, scale);
  return magnitude * magnitude;
}

absl::Status ReadQueryGrowth(const JsonFields& fields, RotaryRule& rule) {
  constexpr char kGrowth[] = "llama_4_scaling_beta", kLength[] = "original_max_position_embeddings";
  ASSIGN_OR_RETURN(const std::optional<JsonFields> parameters, Parameters(fields));
  if (!parameters.has_value()) return fields.Missing("rope_parameters");
  for (const char* key : {kGrowth, kLength}) {
    if (parameters->Find(key) == nullptr) return parameters->Missing(key);
  }
  ASSIGN_OR_RETURN(rule.query_growth, parameters->Number(kGrowth, 0.0));
  if (!(rule.query_growth >= 0)) return parameters->Wrong(kGrowth, "a number, 0 or more");
  ASSIGN_OR_RETURN(rule.query_growth_length, ReadPositive(*parameters, kLength, 1.0));
  return absl::OkStatus();
}

absl::Status ReadWindowRotary(const JsonFields& fields, double theta, ModelConfig& config) {
  RotaryRule rule;
  rule.dim = config.rotaries[0].dim;
  rule.theta = theta;
  ASSIGN_OR_RETURN(const std::optional<JsonFields> parameters, Object(fields, "rope_parameters"));
  if (parameters.has_value()) {
    ASSIGN_OR_RETURN(const std::optional<JsonFields> own, Object(*parameters, "sliding_attention"));
    if (own.has_value()) {
      ASSIGN_OR_RETURN(rule.theta, ReadPositive(*own, "rope_theta", theta));
      RETURN_IF_ERROR(ReadRopeScaling(*own, fields, config, rule));
    }
  }
  config.rotaries.push_back(std::move(rule));
  for (LayerRule& layer : config.layer_rules) layer.rotary = layer.window > 0 ? 1 : 0;
  return absl::OkStatus();
}

}  // namespace moonring::model
