#include "model/families/rope_scaling.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/status_macros.h"
#include "base/text/nearest_name.h"
#include "base/text/ordered_json.h"
#include "model/config/family.h"
#include "model/config/text_config.h"
#include "model/families/parse_config.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

using base::OrderedJson;

// The scaling object under `key` of `json`; null if there is none. If layers have different
// objects, returns the one of the layers without a window.
OrderedJson ScalingUnder(const OrderedJson& json, const char* key) {
  if (!json.contains(key) || !json[key].is_object()) return nullptr;
  return json[key].contains("full_attention") ? json[key]["full_attention"] : json[key];
}

int64_t ContextOf(const ModelConfig& config, const OrderedJson& json) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const OrderedJson scaling = ScalingUnder(json, key);
    if (!scaling.is_object()) continue;
    const OrderedJson original = scaling.value("original_max_position_embeddings", OrderedJson());
    if (original.is_number() && original.get<double>() >= 1 && original.get<double>() < 0x1p53)
      return static_cast<int64_t>(original.get<double>());
  }
  return config.max_position_embeddings;
}

// Whether a key of a rope scaling object describes the scaling, and is removed when the scaling is
// replaced. Any other key (such as mrope_section, or an unknown key) describes the model and stays.
bool IsOfScaling(const std::string& key) {
  static constexpr std::array kOfScaling = {
      "rope_type",        "type",        "factor",    "original_max_position_embeddings",
      "attention_factor", "beta_fast",   "beta_slow", "low_freq_factor",
      "high_freq_factor", "mscale",      "truncate",  "mscale_all_dim",
      "short_factor",     "long_factor", "finetuned", "rope_theta"};
  return std::find(kOfScaling.begin(), kOfScaling.end(), key) != kOfScaling.end();
}

// Returns `scaling`, plus those keys of the older scaling object that stay.
OrderedJson InPlaceOf(const OrderedJson& older, OrderedJson scaling) {
  if (!older.is_object()) return scaling;
  for (const auto& [key, value] : older.items()) {
    if (!IsOfScaling(key)) scaling[key] = value;
  }
  return scaling;
}

}  // namespace

absl::StatusOr<ScaledRope> ScaleRope(const ModelConfig& config, absl::string_view kind,
                                     int64_t length, absl::string_view where) {
  const std::vector<std::string> kinds = {"linear", "dynamic", "yarn", "llama3"};
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    return absl::InvalidArgumentError(absl::StrCat("rope_scaling: '", kind, "', expected one of ",
                                                   absl::StrJoin(kinds, ", "),
                                                   base::DidYouMean(kind, kinds)));
  }
  OrderedJson root = OrderedJson::parse(config.json);
  OrderedJson& json = TextConfigOf(*config.family, root);
  const bool newer = json.contains("rope_parameters");
  if (!config.family->scales_rope && !json.contains("rope_scaling") && !newer) {
    return ScaledRope{config, absl::StrCat("rope_scaling: ", kind, ": ", config.architecture,
                                           " supports none; unchanged")};
  }
  const int64_t context = ContextOf(config, json);
  if (length <= context) {
    return ScaledRope{config,
                      absl::StrCat("rope_scaling: ", kind, ": texts of ", length,
                                   " tokens fit the model's ", context, " positions; unchanged")};
  }
  const int64_t factor = (length + context - 1) / context;
  OrderedJson scaling = {{"rope_type", std::string(kind)}, {"factor", static_cast<double>(factor)}};
  if (kind != "linear") scaling["original_max_position_embeddings"] = context;
  if (kind == "llama3") {
    scaling["low_freq_factor"] = 1.0;
    scaling["high_freq_factor"] = 4.0;
  }
  json["max_position_embeddings"] = context * factor;
  const OrderedJson of_newer = ScalingUnder(json, "rope_parameters");
  const OrderedJson older = ScalingUnder(json, "rope_scaling");
  // If both rope_scaling and rope_parameters exist, Transformers 5 reads rope_scaling, so the keys
  // that stay are written into rope_scaling too.
  json["rope_scaling"] = InPlaceOf(older.is_object() ? older : of_newer, scaling);
  json["rope_theta"] = config.rotaries[0].theta;
  if (newer) {
    OrderedJson& all = json["rope_parameters"];
    OrderedJson& parameters = all.contains("full_attention") ? all["full_attention"] : all;
    parameters = InPlaceOf(of_newer, scaling);
    parameters["rope_theta"] = config.rotaries[0].theta;
  }
  ASSIGN_OR_RETURN(ModelConfig scaled, ParseConfig(root.dump(2), where));
  scaled.python_numbers = config.python_numbers;
  std::string report = absl::StrCat("rotary embedding: ", DescribeRope(scaled.rotaries[0]),
                                    "; the context grows from ", context, " to ", context * factor);
  return ScaledRope{std::move(scaled), std::move(report)};
}

}  // namespace moonring::model
