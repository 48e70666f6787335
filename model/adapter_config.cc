#include "model/adapter_config.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/status/status_macros.h"
#include "base/text/ordered_json.h"
#include "model/config/weights.h"
#include "model/files/json_text.h"
#include "model/name_pattern.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

using base::OrderedJson;

constexpr char kPeftVersion[] = "0.18.1";  // the version of PEFT whose format is written
constexpr char kPrincipal[] = "pissa";

// Options that are refused because they change what an adapter computes. fan_in_fan_out is
// accepted, because PEFT itself resets it for a linear map.
constexpr const char* kUnsupported[] = {"coft",
                                        "block_share",
                                        "layer_replication",
                                        "megatron_config",
                                        "target_parameters",
                                        "alora_invocation_tokens",
                                        "use_qalora",
                                        "arrow_config"};

bool AsksForNothing(const nlohmann::json& value) {
  return value.is_null() || value == false ||
         ((value.is_object() || value.is_array() || value.is_string()) && value.empty());
}

// Reads a list of names; with `alone`, a single string is accepted too.
absl::StatusOr<std::vector<std::string>> Names(const JsonFields& fields, absl::string_view key,
                                               bool alone = false) {
  std::vector<std::string> names;
  const nlohmann::json* value = fields.Find(key);
  if (value == nullptr) return names;
  if (alone && value->is_string()) return std::vector<std::string>{value->get<std::string>()};
  if (!value->is_array()) return fields.Wrong(key, "a list of names");
  for (const nlohmann::json& name : *value) {
    if (!name.is_string() || name.get_ref<const std::string&>().empty())
      return fields.Wrong(key, "a list of names");
    names.push_back(name);
  }
  return names;
}

// Whether the value is "pissa" or "pissa_niter_N" (N iterations).
bool IsPrincipal(const nlohmann::json& init) {
  return init.is_string() && absl::StartsWith(init.get_ref<const std::string&>(), kPrincipal);
}

absl::Status CheckSupported(const JsonFields& fields) {
  const auto refuse = [&](absl::string_view key, const nlohmann::json& value,
                          absl::string_view why) {
    return absl::UnimplementedError(
        absl::StrCat(fields.where(), ": ", key, ": ", ShownJson(value), why));
  };
  ASSIGN_OR_RETURN(const std::string type, fields.String("peft_type", ""));
  if (type != "LORA" && type != "OFT") return refuse("peft_type", type, ": expected LORA or OFT");
  for (const char* key : kUnsupported) {
    const nlohmann::json* value = fields.Find(key);
    if (value != nullptr && !AsksForNothing(*value))
      return refuse(key, *value, " is not supported");
  }
  ASSIGN_OR_RETURN(const std::string bias, fields.String("bias", "none"));
  if (bias != "none" && bias != "all" && bias != "lora_only" && bias != "oft_only")
    return fields.Wrong("bias", "none, all or lora_only");
  const nlohmann::json* init = fields.Find("init_lora_weights");
  if (init != nullptr && init->is_string() && *init != "gaussian" && *init != "orthogonal" &&
      *init != "eva" && !IsPrincipal(*init)) {
    return refuse("init_lora_weights", *init,
                  " is not supported: it changes the base's weights too");
  }
  return absl::OkStatus();
}

absl::StatusOr<RotationOptions> ReadRotation(const JsonFields& fields) {
  RotationOptions rotation;
  ASSIGN_OR_RETURN(rotation.blocks, fields.Int("r"));
  ASSIGN_OR_RETURN(rotation.block_size, fields.Int("oft_block_size"));
  ASSIGN_OR_RETURN(const bool series, fields.Bool("use_cayley_neumann", true));
  ASSIGN_OR_RETURN(const auto terms, fields.OptionalInt("num_cayley_neumann_terms"));
  rotation.terms = series ? std::max<int64_t>(1, terms.value_or(5)) : 0;
  return rotation;
}

absl::Status ReadLowRank(const JsonFields& fields, AdapterOptions& options) {
  ASSIGN_OR_RETURN(options.rank, fields.Int("r"));
  if (options.rank < 1)
    return absl::InvalidArgumentError(
        absl::StrCat(fields.where(), ": r: ", options.rank, ", expected 1 or more"));
  ASSIGN_OR_RETURN(options.alpha, fields.Number("lora_alpha", 8.0));
  ASSIGN_OR_RETURN(options.dropout, fields.Number("lora_dropout", 0.0));
  ASSIGN_OR_RETURN(options.rslora, fields.Bool("use_rslora", false));
  ASSIGN_OR_RETURN(options.dora, fields.Bool("use_dora", false));
  const nlohmann::json* init = fields.Find("init_lora_weights");
  if (init == nullptr || !IsPrincipal(*init)) return absl::OkStatus();
  absl::string_view text = init->get_ref<const std::string&>();
  options.principal.emplace(PrincipalOptions{-1});
  options.dropout = 0.0;  // dropout only acts in training, and training continues without it
  if (text != kPrincipal && !(absl::ConsumePrefix(&text, "pissa_niter_") &&
                              absl::SimpleAtoi(text, &options.principal->iterations)))
    return fields.Wrong("init_lora_weights", "pissa or pissa_niter_N");
  return absl::OkStatus();
}

bool Ends(absl::string_view module, absl::string_view name) {
  return module == name || absl::EndsWith(module, absl::StrCat(".", name));
}

std::string HeadModule(const ModelConfig& config) {
  const std::string head = HeadName(config);
  return head.substr(0, head.rfind('.'));
}

// Whether low-rank weights of the head are trained; otherwise they are read as a frozen part.
bool TrainsHead(const AdapterOptions& options) {
  return !options.rotation.has_value() && !options.dora && !options.principal.has_value() &&
         !options.ties_head;
}

// Module names of all linear maps that can be adapted, in order: those of the layers, and the head
// if `with_head`.
std::vector<std::string> LinearModules(const ModelConfig& config, bool with_head) {
  std::vector<std::string> modules;
  for (const WeightShape& weight : WantedWeights(config)) {
    if (weight.linear) modules.push_back(weight.name.substr(0, weight.name.rfind('.')));
  }
  if (with_head) modules.push_back(HeadModule(config));
  return modules;
}

// The modules selected by target_modules, exclude_modules, layers_to_transform and layers_pattern,
// by the rules of PEFT's check_target_module_exists. `all`: target_modules selects every map.
struct Targeting {
  bool all = false;
  std::vector<std::string> names, excluded, layer_patterns;
  std::set<std::string> layers;  // layer numbers in decimal; empty: all layers

  absl::StatusOr<bool> InLayers(const std::string& module) const {
    if (layers.empty()) return true;
    std::vector<std::string> patterns = {".*\\.[^.]*\\.(\\d+)\\."};
    if (!layer_patterns.empty()) {
      patterns.clear();
      for (const std::string& name : layer_patterns)
        patterns.push_back(absl::StrCat(".*\\.", name, "\\.(\\d+)\\."));
    }
    for (const std::string& pattern : patterns) {
      std::string layer;
      ASSIGN_OR_RETURN(const bool matches, NameMatches(pattern, module, &layer));
      if (matches) return layers.contains(layer);
    }
    return false;
  }
  absl::StatusOr<bool> Takes(const std::string& module) const {
    const auto ends = [&](const std::string& name) { return Ends(module, name); };
    if (std::any_of(excluded.begin(), excluded.end(), ends)) return false;
    if (std::find(names.begin(), names.end(), module) != names.end()) return true;
    if (!all && !std::any_of(names.begin(), names.end(), ends)) return false;
    return InLayers(module);
  }
};

absl::StatusOr<Targeting> ReadTargeting(const JsonFields& fields) {
  Targeting targeting;
  targeting.all = *fields.Find("target_modules") == "all-linear";
  if (!targeting.all) {
    ASSIGN_OR_RETURN(targeting.names, Names(fields, "target_modules"));
  }
  const nlohmann::json* excluded = fields.Find("exclude_modules");
  if (excluded != nullptr && !excluded->is_string()) {
    ASSIGN_OR_RETURN(targeting.excluded, Names(fields, "exclude_modules"));
  }
  ASSIGN_OR_RETURN(targeting.layer_patterns, Names(fields, "layers_pattern", /*alone=*/true));
  const nlohmann::json* layers = fields.Find("layers_to_transform");
  if (layers == nullptr) return targeting;
  const nlohmann::json list = layers->is_array() ? *layers : nlohmann::json::array({*layers});
  for (const nlohmann::json& layer : list) {
    if (!layer.is_number_integer())
      return fields.Wrong("layers_to_transform", "a layer's number, or a list of them");
    targeting.layers.insert(absl::StrCat(layer.get<int64_t>()));
  }
  return targeting;
}

// Reads target_modules and the options that restrict it. Sets options.modules if `targets` alone
// does not determine the modules. If target_modules or exclude_modules is a pattern, the modules
// are those that the file contains.
absl::Status ReadTargets(const JsonFields& fields, const ModelConfig& config,
                         const std::vector<std::string>& in_file, AdapterOptions& options) {
  const nlohmann::json* targets = fields.Find("target_modules");
  if (targets == nullptr) return fields.Missing("target_modules");
  const std::vector<std::string> linear = LinearModules(config, TrainsHead(options));
  std::set<std::string> there(in_file.begin(), in_file.end());
  const nlohmann::json* excluded = fields.Find("exclude_modules");
  const bool by_file = excluded != nullptr && excluded->is_string() && !AsksForNothing(*excluded);
  if (targets->is_string() && *targets != "all-linear") {
    options.modules.emplace();
    for (const std::string& module : linear) {
      if (there.contains(module)) options.modules->insert(module);
    }
    options.targets.assign(options.modules->begin(), options.modules->end());
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const Targeting targeting, ReadTargeting(fields));
  options.targets = targeting.all ? std::vector<std::string>{"all"} : targeting.names;
  const bool plain =
      !by_file && targeting.excluded.empty() && targeting.layers.empty() &&
      std::all_of(targeting.names.begin(), targeting.names.end(), [&](const std::string& name) {
        return std::any_of(linear.begin(), linear.end(),
                           [&](const std::string& module) { return Ends(module, name); });
      });
  if (plain) return absl::OkStatus();
  std::set<std::string> modules;
  for (const std::string& module : linear) {
    if (targeting.all && module == HeadModule(config)) continue;  // as in PEFT
    ASSIGN_OR_RETURN(const bool takes, targeting.Takes(module), fields.where());
    if (takes && (!by_file || there.contains(module))) modules.insert(module);
  }
  // If no map is selected, `modules` stays absent so that the check of `targets` refuses it, unless
  // the adapter has other components (an embedding, a head, tokens).
  const bool others = std::any_of(in_file.begin(), in_file.end(), [&](const std::string& module) {
    return std::find(linear.begin(), linear.end(), module) == linear.end();
  });
  const bool tokens = fields.Find("trainable_token_indices") != nullptr;
  if (!modules.empty() || others || tokens) options.modules = std::move(modules);
  return absl::OkStatus();
}

// Whether a key of rank_pattern or alpha_pattern matches a module name: (.*\.)?KEY must match all
// of the name.
absl::StatusOr<bool> PatternTakes(const std::string& key, const std::string& module) {
  const bool literal = std::all_of(key.begin(), key.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
  });
  if (literal) return Ends(module, key);
  return NameMatches(absl::StrCat("(.*\\.)?(", key, ")"), module);
}

// Calls `set(module, number)` for each module that a key of the pattern matches; the first matching
// key counts.
template <typename Set>
absl::Status ReadPattern(const JsonFields& fields, const OrderedJson& ordered, const char* key,
                         const std::set<std::string>& modules, const Set& set) {
  const auto found = ordered.find(key);
  // An empty list is accepted too, because Lua code writes an empty table as an empty list.
  if (found == ordered.end() || found->is_null() || found->empty()) return absl::OkStatus();
  if (!found->is_object()) return fields.Wrong(key, "an object of numbers");
  for (const auto& [name, value] : found->items()) {
    if (!value.is_number() || value.template get<double>() <= 0.0)
      return fields.Wrong(key, "numbers above 0");
  }
  for (const std::string& module : modules) {
    for (const auto& [name, value] : found->items()) {
      ASSIGN_OR_RETURN(const bool takes, PatternTakes(name, module),
                       absl::StrCat(fields.where(), ": ", key));
      if (!takes) continue;
      set(module, value.template get<double>());
      break;
    }
  }
  return absl::OkStatus();
}

absl::Status ReadPatterns(const JsonFields& fields, absl::string_view text,
                          const ModelConfig& config, const std::vector<std::string>& in_file,
                          AdapterOptions& options) {
  const OrderedJson ordered = OrderedJson::parse(text);
  const std::vector<std::string> linear = LinearModules(config, /*with_head=*/true);
  std::set<std::string> modules(in_file.begin(), in_file.end());
  modules.insert(linear.begin(), linear.end());
  RETURN_IF_ERROR(ReadPattern(fields, ordered, "rank_pattern", modules,
                              [&](const std::string& module, double rank) {
                                if (rank != static_cast<double>(options.rank))
                                  options.ranks[module] = static_cast<int64_t>(rank);
                              }));
  return ReadPattern(fields, ordered, "alpha_pattern", modules,
                     [&](const std::string& module, double alpha) {
                       if (alpha != options.alpha) options.alphas[module] = alpha;
                     });
}

// The value of `target_modules`: names of modules. For the text model of a composite (multimodal)
// model it is a regular expression, because PEFT would otherwise also select modules of the same
// names in the vision tower.
OrderedJson TargetsOf(const Adapter& adapter) {
  constexpr absl::string_view kText = "model.language_model.";
  std::vector<std::string> targets = adapter.options.targets;
  if (adapter.options.modules.has_value())
    targets.assign(adapter.options.modules->begin(), adapter.options.modules->end());
  if (adapter.fixed != nullptr)
    targets.insert(targets.end(), adapter.fixed->targets.begin(), adapter.fixed->targets.end());
  const bool composite =
      std::any_of(adapter.maps.begin(), adapter.maps.end(),
                  [&](const auto& map) { return absl::StartsWith(map.first, kText); });
  if (!composite) return targets;
  std::vector<std::string> names, outside;  // outside of the text model: the head
  for (const std::string& target : targets) {
    const bool inside = !adapter.maps.contains(target) || absl::StartsWith(target, kText);
    (inside ? names : outside)
        .push_back(absl::StrReplaceAll(absl::StripPrefix(target, kText), {{".", "\\."}}));
  }
  std::string pattern =
      absl::StrCat("model\\.language_model\\.(?:.*\\.)?(?:", absl::StrJoin(names, "|"), ")");
  for (const std::string& module : outside) absl::StrAppend(&pattern, "|", module);
  return pattern;
}

OrderedJson InitOf(const AdapterOptions& options) {
  if (!options.principal.has_value()) return true;
  const int64_t iterations = options.principal->iterations;
  return iterations < 0 ? std::string(kPrincipal) : absl::StrCat("pissa_niter_", iterations);
}

OrderedJson NumberJson(double value) {
  const auto whole = static_cast<int64_t>(value);
  if (static_cast<double>(whole) == value) return whole;
  return value;
}

OrderedJson RotationJson(const Adapter& adapter, const std::string& base_path) {
  const RotationOptions& rotation = *adapter.options.rotation;
  const OrderedJson null = nullptr;
  return {
      {"auto_mapping", null},
      {"base_model_name_or_path", base_path},
      {"bias", "none"},
      {"block_share", false},
      {"coft", false},
      {"eps", 6e-05},
      {"exclude_modules", null},
      {"fan_in_fan_out", false},
      {"inference_mode", true},
      {"init_weights", true},
      {"layers_pattern", null},
      {"layers_to_transform", null},
      {"module_dropout", 0.0},
      {"modules_to_save", null},
      {"num_cayley_neumann_terms", rotation.terms > 0 ? rotation.terms : 5},
      {"oft_block_size", rotation.block_size},
      {"peft_type", "OFT"},
      {"peft_version", kPeftVersion},
      {"r", rotation.blocks},
      {"revision", null},
      {"target_modules", TargetsOf(adapter)},
      {"task_type", "CAUSAL_LM"},
      {"use_cayley_neumann", rotation.terms > 0},
  };
}

OrderedJson LowRankJson(const Adapter& adapter, const std::string& base_path) {
  const AdapterOptions& options = adapter.options;
  const OrderedJson null = nullptr, none = OrderedJson::object();
  OrderedJson json = {
      {"alora_invocation_tokens", null},
      {"alpha_pattern", none},
      {"arrow_config", null},
      {"auto_mapping", null},
      {"base_model_name_or_path", base_path},
      {"bias", "none"},
      {"corda_config", null},
      {"ensure_weight_tying", options.ties_head},
      {"eva_config", null},
      {"exclude_modules", null},
      {"fan_in_fan_out", false},
      {"inference_mode", true},
      {"init_lora_weights", InitOf(options)},
      {"layer_replication", null},
      {"layers_pattern", null},
      {"layers_to_transform", null},
      {"loftq_config", none},
      {"lora_alpha", NumberJson(options.alpha)},
      {"lora_bias", false},
      {"lora_dropout", options.dropout},
      {"megatron_config", null},
      {"megatron_core", "megatron.core"},
      {"modules_to_save", null},
      {"peft_type", "LORA"},
      {"peft_version", kPeftVersion},
      {"qalora_group_size", 16},
      {"r", options.rank},
      {"rank_pattern", none},
      {"revision", null},
      {"target_modules", TargetsOf(adapter)},
      {"target_parameters", null},
      {"task_type", "CAUSAL_LM"},
      {"trainable_token_indices", null},
      {"use_dora", options.dora},
      {"use_qalora", false},
      {"use_rslora", options.rslora},
  };
  for (const auto& [module, rank] : options.ranks) json["rank_pattern"][module] = rank;
  for (const auto& [module, alpha] : options.alphas)
    json["alpha_pattern"][module] = NumberJson(alpha);
  return json;
}

}  // namespace

absl::StatusOr<AdapterOptions> ReadAdapterConfig(absl::string_view text, const std::string& where,
                                                 const ModelConfig& config,
                                                 const std::vector<std::string>& modules) {
  ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonObject(text, where));
  const JsonFields fields(json, where);
  RETURN_IF_ERROR(CheckSupported(fields));
  AdapterOptions options;
  ASSIGN_OR_RETURN(const std::string type, fields.String("peft_type", ""));
  if (type == "OFT") {
    ASSIGN_OR_RETURN(options.rotation, ReadRotation(fields));
  } else {
    RETURN_IF_ERROR(ReadLowRank(fields, options));
    RETURN_IF_ERROR(ReadPatterns(fields, text, config, modules, options));
  }
  ASSIGN_OR_RETURN(const bool tying, fields.Bool("ensure_weight_tying", false));
  options.ties_head = tying && config.tie_word_embeddings;
  RETURN_IF_ERROR(ReadTargets(fields, config, modules, options));
  ASSIGN_OR_RETURN(options.saved, Names(fields, "modules_to_save"));
  return options;
}

std::string AdapterConfigText(const Adapter& adapter, const std::string& base_path) {
  OrderedJson json = adapter.options.rotation.has_value() ? RotationJson(adapter, base_path)
                                                          : LowRankJson(adapter, base_path);
  if (!adapter.options.saved.empty()) json["modules_to_save"] = adapter.options.saved;
  if (adapter.fixed != nullptr) json.update(OrderedJson::parse(adapter.fixed->config));
  return json.dump(2) + "\n";
}

std::string InitText(const AdapterOptions& options) { return InitOf(options).dump(); }

}  // namespace moonring::model
