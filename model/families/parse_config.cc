#include "model/families/parse_config.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/status_macros.h"
#include "base/text/nearest_name.h"
#include "model/config/config_fields.h"
#include "model/config/rotary_config.h"
#include "model/families/families.h"
#include "model/files/json_text.h"
#include "model/mixers/mixers.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

// Limits of the numbers of layers and experts, so that the list of weight names fits in memory.
constexpr int64_t kMostLayers = 10000, kMostExperts = 10000;

absl::Status Unknown(const JsonFields& fields, absl::string_view key, const std::string& name,
                     std::string Family::*member) {
  std::vector<std::string> known;
  for (const std::vector<Family>* list : {&Families(), &Composites()}) {
    for (const Family& family : *list) {
      if (known.empty() || known.back() != family.*member) known.push_back(family.*member);
    }
  }
  return absl::UnimplementedError(
      absl::StrCat(fields.where(), ": ", key, ": '", Shown(name), "' is not supported; supported: ",
                   absl::StrJoin(known, ", "), base::DidYouMean(name, known)));
}

// Chooses among composite (multimodal) families that differ only in their text model: the one whose
// text model text_config names, or the first if text_config names none.
absl::StatusOr<const Family*> ChooseText(const JsonFields& fields,
                                         const std::vector<const Family*>& composites) {
  const nlohmann::json* text = fields.Find("text_config");
  if (text == nullptr) return fields.Missing("text_config");
  if (!text->is_object()) return fields.Wrong("text_config", "an object");
  const JsonFields text_fields(*text, absl::StrCat(fields.where(), ": text_config"));
  ASSIGN_OR_RETURN(const std::string type, text_fields.String("model_type", ""));
  std::vector<std::string> known;
  for (const Family* family : composites) {
    if (type.empty() || type == family->text_model_type) return family;
    known.push_back(family->text_model_type);
  }
  return absl::UnimplementedError(
      absl::StrCat(text_fields.where(), ": model_type: '", Shown(type), "' is not supported in ",
                   composites.front()->architecture, "; supported: ", absl::StrJoin(known, ", ")));
}

// Finds the family by `architectures`, or by `model_type` if that key is missing, as Transformers
// does.
absl::Status ReadArchitecture(const JsonFields& fields, ModelConfig& config) {
  const nlohmann::json* listed = fields.Find("architectures");
  ASSIGN_OR_RETURN(const std::string model_type, fields.String("model_type", ""));
  std::string name;
  if (listed != nullptr) {
    if (!listed->is_array() || listed->size() != 1 || !listed->front().is_string())
      return fields.Wrong("architectures", "a list of one name");
    name = listed->front().get<std::string>();
  } else if (model_type.empty()) {
    return fields.Missing("architectures");
  }
  const auto named = [&](const Family& family) {
    return model_type == family.model_type ||
           (!model_type.empty() && model_type == family.other_model_type);
  };
  const auto fits = [&](const Family& family) {
    return listed != nullptr ? name == family.architecture : named(family);
  };
  // The families that fit. There are several if a composite (multimodal) architecture may have one
  // of several text models.
  std::vector<const Family*> found;
  for (const std::vector<Family>* list : {&Families(), &Composites()}) {
    for (const Family& family : *list) {
      if (fits(family)) found.push_back(&family);
    }
  }
  if (found.empty()) {
    return listed != nullptr ? Unknown(fields, "architectures", name, &Family::architecture)
                             : Unknown(fields, "model_type", model_type, &Family::model_type);
  }
  const Family* family = found.front();
  if (!model_type.empty() && !named(*family)) {
    return fields.Wrong(
        "model_type",
        absl::StrCat("'", family->model_type, "' as the architecture is ", family->architecture));
  }
  if (family->composite()) {
    ASSIGN_OR_RETURN(family, ChooseText(fields, found));
  }
  config.family = family;
  config.architecture = family->architecture;
  config.model_type = family->model_type;
  return absl::OkStatus();
}

// Refuses quantised models: quantised weights cannot be trained directly, and the Python packages
// that dequantise them are not available here.
absl::Status RefuseQuantized(const JsonFields& fields, const Family& family) {
  const nlohmann::json* quantized = fields.Find("quantization_config");
  if (quantized == nullptr) return absl::OkStatus();
  const bool named = quantized->is_object() && quantized->contains("quant_method") &&
                     (*quantized)["quant_method"].is_string();
  const std::string method = named ? (*quantized)["quant_method"].get<std::string>() : "";
  if (method == "mxfp4" && family.mxfp4) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(fields.where(), ": quantization_config",
                   method.empty() ? "" : absl::StrCat(" (", Shown(method), ")"),
                   ": a quantised checkpoint is not trained here: take the one it was made from, "
                   "or load it in Transformers, call dequantize() where its method "
                   "has that, and save_pretrained; GGUF files are read"));
}

// The config of the decoder. For a composite (multimodal) model this is text_config, with defaults
// for omitted keys, and with those top-level keys that apply to the text model too.
nlohmann::json TextOf(const nlohmann::json& root, const Family& family) {
  if (!family.composite()) return root;
  nlohmann::json text = root["text_config"];
  if (!family.text_defaults.empty()) {
    const nlohmann::json defaults = nlohmann::json::parse(family.text_defaults);
    for (const auto& [key, value] : defaults.items()) {
      if (!text.contains(key)) text[key] = value;
    }
  }
  if (!text.contains("tie_word_embeddings") && root.contains("tie_word_embeddings"))
    text["tie_word_embeddings"] = root["tie_word_embeddings"];
  for (const char* key : {"bos_token_id", "eos_token_id"}) {
    if (root.contains(key)) text[key] = root[key];
  }
  return text;
}

absl::StatusOr<int64_t> ReadLayerCount(const JsonFields& fields, const Family& family) {
  if (family.layer_keys.empty())
    return ReadSize(fields, "num_hidden_layers", std::nullopt, kMostLayers);
  for (const char* key : family.layer_keys) {
    const nlohmann::json* layers = fields.Find(key);
    if (layers == nullptr) continue;
    const auto count = static_cast<int64_t>(layers->is_string() ? layers->get<std::string>().size()
                                                                : layers->size());
    if ((layers->is_string() || layers->is_array()) && count >= 1 && count <= kMostLayers)
      return count;
    return fields.Wrong(key, absl::StrCat("an item for each layer, 1 to ", kMostLayers));
  }
  return fields.Missing(family.layer_keys.front());
}

absl::Status ReadSizes(const JsonFields& fields, ModelConfig& config) {
  const Family& family = *config.family;
  ASSIGN_OR_RETURN(config.vocab_size, ReadSize(fields, "vocab_size", std::nullopt));
  ASSIGN_OR_RETURN(config.hidden_size, ReadSize(fields, "hidden_size", std::nullopt));
  const bool own_key = fields.Find(family.intermediate_key) != nullptr;
  ASSIGN_OR_RETURN(
      config.intermediate_size,
      ReadSize(fields, own_key ? family.intermediate_key : "intermediate_size", std::nullopt));
  ASSIGN_OR_RETURN(config.layers, ReadLayerCount(fields, family));
  ASSIGN_OR_RETURN(config.heads, ReadSize(fields, "num_attention_heads", std::nullopt));
  ASSIGN_OR_RETURN(config.kv_heads, ReadSize(fields, "num_key_value_heads",
                                             family.kv_heads > 0 ? family.kv_heads : config.heads));
  ASSIGN_OR_RETURN(config.max_position_embeddings,
                   ReadSize(fields, family.context_key, family.max_position_embeddings,
                            std::numeric_limits<int64_t>::max()));
  if (config.heads % config.kv_heads != 0) {
    return fields.Wrong("num_key_value_heads",
                        absl::StrCat("a divisor of num_attention_heads ", config.heads));
  }
  const bool derived = fields.Find("head_dim") == nullptr && family.head_dim == 0;
  if (derived && config.hidden_size % config.heads != 0) {
    return fields.Wrong("hidden_size", absl::StrCat("a multiple of num_attention_heads ",
                                                    config.heads, ", as there is no head_dim"));
  }
  ASSIGN_OR_RETURN(
      config.head_dim,
      ReadSize(fields, "head_dim", derived ? config.hidden_size / config.heads : family.head_dim));
  if (config.heads * config.head_dim > kLargestSize)
    return fields.Wrong("num_attention_heads", "heads x head_dim below 2^31");
  config.layer_rules.assign(config.layers, {.mixer = &kSoftmaxAttention,
                                            .kv_heads = config.kv_heads,
                                            .head_dim = config.head_dim,
                                            .intermediate_size = config.intermediate_size});
  config.score_scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
  return absl::OkStatus();
}

absl::Status ReadSwitches(const JsonFields& fields, ModelConfig& config) {
  const Family& family = *config.family;
  ASSIGN_OR_RETURN(config.tie_word_embeddings, fields.Bool("tie_word_embeddings", family.tied));
  ASSIGN_OR_RETURN(config.rms_norm_eps, fields.Number(family.eps_key, family.rms_norm_eps));
  if (!(config.rms_norm_eps >= 0 && config.rms_norm_eps < 1))
    return fields.Wrong(family.eps_key, "a number from 0 to 1");
  RETURN_IF_ERROR(ReadActivation(fields, "hidden_act", "silu", config));
  ASSIGN_OR_RETURN(RotaryRule rotary, ReadRotary(fields, config));
  config.rotaries = {std::move(rotary)};
  for (const char* key : {"attention_dropout", "residual_dropout", "resid_pdrop", "embd_pdrop",
                          "router_jitter_noise"}) {
    ASSIGN_OR_RETURN(const double dropout, fields.Number(key, 0.0));
    if (dropout == 0) continue;
    return absl::UnimplementedError(absl::StrCat(
        fields.where(), ": ", key, " ", dropout,
        ": a layer that drops cannot be the same on any number of ranks; set ", key, " to 0"));
  }
  return absl::OkStatus();
}

absl::Status CheckToken(const JsonFields& fields, absl::string_view key, int64_t id,
                        const ModelConfig& config) {
  if (id < config.vocab_size) return absl::OkStatus();
  return fields.Wrong(key, absl::StrCat("an id below vocab_size ", config.vocab_size));
}

// Reads special token ids. A negative id means "none", as in the first Llama files. A pad id
// outside the vocabulary also means "none", because pad tokens are never input to a model here.
absl::Status ReadTokens(const JsonFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.bos_token_id, fields.OptionalInt("bos_token_id"));
  ASSIGN_OR_RETURN(config.pad_token_id, fields.OptionalInt("pad_token_id"));
  if (!fields.Has("pad_token_id")) config.pad_token_id = config.family->pad_token_id;
  if (config.bos_token_id.has_value() && *config.bos_token_id < 0) config.bos_token_id.reset();
  if (config.pad_token_id.has_value() && (config.family->pads_learn || *config.pad_token_id < 0 ||
                                          *config.pad_token_id >= config.vocab_size))
    config.pad_token_id.reset();
  if (config.bos_token_id.has_value())
    RETURN_IF_ERROR(CheckToken(fields, "bos_token_id", *config.bos_token_id, config));

  const nlohmann::json* eos = fields.Find("eos_token_id");
  if (eos == nullptr) return absl::OkStatus();
  const nlohmann::json list = eos->is_array() ? *eos : nlohmann::json::array({*eos});
  for (const nlohmann::json& item : list) {
    if (!item.is_number_integer())
      return fields.Wrong("eos_token_id", "a whole number or a list of them");
    const int64_t id = item.get<int64_t>();
    if (id < 0 && !item.is_number_unsigned()) continue;
    RETURN_IF_ERROR(CheckToken(fields, "eos_token_id", id < 0 ? config.vocab_size : id, config));
    config.eos_token_ids.push_back(id);
  }
  return absl::OkStatus();
}

absl::Status CheckExperts(const JsonFields& fields, const ModelConfig& config) {
  const ExpertRule& experts = config.experts;
  const ExpertKeys& keys = config.family->expert_keys;
  if (experts.count > kMostExperts)
    return absl::InvalidArgumentError(absl::StrCat(fields.where(), ": ", experts.count,
                                                   " experts, expected at most ", kMostExperts));
  const int64_t size = experts.count / std::max<int64_t>(1, experts.groups);  // experts per group
  if (experts.groups > 1 && (experts.count % experts.groups != 0 || size < 2)) {
    return fields.Wrong(keys.groups, absl::StrCat("a divisor of the number of experts, ",
                                                  experts.count, ", with two or more in a group"));
  }
  if (experts.chosen_groups > experts.groups ||
      (experts.groups > 1 && experts.chosen_groups * size < experts.chosen)) {
    return fields.Wrong(
        "topk_group", absl::StrCat("at most ", keys.groups, " ", experts.groups, ", and groups of ",
                                   size, " for ", experts.chosen, " experts a token"));
  }
  if (experts.chosen <= experts.count) return absl::OkStatus();
  return fields.Wrong(
      keys.chosen, absl::StrCat("a whole number from 1 to the number of experts, ", experts.count));
}

}  // namespace

absl::StatusOr<ModelConfig> ParseConfig(absl::string_view text, absl::string_view where) {
  const std::string json = WithSpeltNumbers(text);
  ASSIGN_OR_RETURN(const nlohmann::json root, ParseJsonObject(json, where));
  const JsonFields whole(root, std::string(where));
  ModelConfig config;
  config.json = json;
  config.python_numbers = json != text;
  RETURN_IF_ERROR(ReadArchitecture(whole, config));
  RETURN_IF_ERROR(RefuseQuantized(whole, *config.family));
  const nlohmann::json said = TextOf(root, *config.family);
  const JsonFields fields(said,
                          absl::StrCat(where, config.family->composite() ? ": text_config" : ""));
  RETURN_IF_ERROR(RefuseQuantized(fields, *config.family));
  RETURN_IF_ERROR(ReadSizes(fields, config));
  RETURN_IF_ERROR(ReadSwitches(fields, config));
  if (config.family->read != nullptr) RETURN_IF_ERROR(config.family->read(fields, config));
  RETURN_IF_ERROR(CheckExperts(fields, config));
  RETURN_IF_ERROR(ReadTokens(fields, config));
  return config;
}

}  // namespace moonring::model
