#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/nearest_name.h"
#include "comm/status_macros.h"
#include "model/json_text.h"

namespace moonring::model {
namespace {

// What the families that are built here differ in: defaults, and whether attention may have a sliding window.
struct Family {
  const char* architecture;
  const char* model_type;
  int64_t kv_heads = 0;        // 0: as many as query heads
  int64_t sliding_window = 0;  // 0: there is none
};
constexpr Family kFamilies[] = {{"LlamaForCausalLM", "llama"}, {"MistralForCausalLM", "mistral", 8, 4096}};

// Beyond these no product of two sizes fits in 64 bits, or a list of names in memory.
constexpr int64_t kLargestSize = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostLayers = 10000;

absl::Status Unknown(const JsonFields& fields, absl::string_view key, absl::string_view name, const char* Family::*member) {
  std::vector<std::string> known;
  for (const Family& family : kFamilies) known.push_back(family.*member);
  return absl::UnimplementedError(absl::StrCat(fields.where(), ": ", key, ": '", Shown(name), "' is not supported yet; supported: ", absl::StrJoin(known, ", "),
                                               comm::DidYouMean(name, known)));
}

// `architectures` decides; a file without it goes by `model_type`, as in Transformers.
absl::StatusOr<const Family*> ReadArchitecture(const JsonFields& fields, ModelConfig& config) {
  const nlohmann::json* listed = fields.Find("architectures");
  ASSIGN_OR_RETURN(const std::string model_type, fields.String("model_type", ""));
  std::string name;
  if (listed != nullptr) {
    if (!listed->is_array() || listed->size() != 1 || !listed->front().is_string()) return fields.Wrong("architectures", "a list of one name");
    name = listed->front().get<std::string>();
  } else if (model_type.empty()) {
    return fields.Missing("architectures");
  }
  for (const Family& family : kFamilies) {
    if (listed != nullptr ? name != family.architecture : model_type != family.model_type) continue;
    if (!model_type.empty() && model_type != family.model_type) {
      return fields.Wrong("model_type", absl::StrCat("'", family.model_type, "' as the architecture is ", family.architecture));
    }
    config.architecture = family.architecture;
    config.model_type = family.model_type;
    return &family;
  }
  return listed != nullptr ? Unknown(fields, "architectures", name, &Family::architecture) : Unknown(fields, "model_type", model_type, &Family::model_type);
}

absl::StatusOr<int64_t> Size(const JsonFields& fields, absl::string_view key, std::optional<int64_t> otherwise, int64_t most = kLargestSize) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> value, fields.OptionalInt(key));
  if (!value.has_value() && !otherwise.has_value()) return fields.Missing(key);
  const int64_t size = value.has_value() ? *value : *otherwise;
  if (size < 1 || size > most) return fields.Wrong(key, absl::StrCat("a whole number from 1 to ", most));
  return size;
}

absl::Status ReadSizes(const JsonFields& fields, const Family& family, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.vocab_size, Size(fields, "vocab_size", std::nullopt));
  ASSIGN_OR_RETURN(config.hidden_size, Size(fields, "hidden_size", std::nullopt));
  ASSIGN_OR_RETURN(config.intermediate_size, Size(fields, "intermediate_size", std::nullopt));
  ASSIGN_OR_RETURN(config.layers, Size(fields, "num_hidden_layers", std::nullopt, kMostLayers));
  ASSIGN_OR_RETURN(config.heads, Size(fields, "num_attention_heads", std::nullopt));
  ASSIGN_OR_RETURN(config.kv_heads, Size(fields, "num_key_value_heads", family.kv_heads > 0 ? family.kv_heads : config.heads));
  ASSIGN_OR_RETURN(config.max_position_embeddings, Size(fields, "max_position_embeddings", 2048, std::numeric_limits<int64_t>::max()));
  if (config.heads % config.kv_heads != 0) {
    return fields.Wrong("num_key_value_heads", absl::StrCat("a divisor of num_attention_heads ", config.heads));
  }
  if (fields.Find("head_dim") == nullptr && config.hidden_size % config.heads != 0) {
    return fields.Wrong("hidden_size", absl::StrCat("a multiple of num_attention_heads ", config.heads, ", as there is no head_dim"));
  }
  ASSIGN_OR_RETURN(config.head_dim, Size(fields, "head_dim", std::max<int64_t>(1, config.hidden_size / config.heads)));
  if (config.head_dim % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(fields.where(), ": head_dim: wanted an even number (rotary embedding turns pairs), got ", config.head_dim));
  }
  if (config.heads * config.head_dim > kLargestSize) return fields.Wrong("num_attention_heads", "heads x head_dim below 2^31");
  return absl::OkStatus();
}

// A null says that there is none; a missing key, the family's own.
absl::Status ReadWindow(const JsonFields& fields, const Family& family, ModelConfig& config) {
  if (family.sliding_window == 0 || (fields.Has("sliding_window") && fields.Find("sliding_window") == nullptr)) return absl::OkStatus();
  ASSIGN_OR_RETURN(config.sliding_window, Size(fields, "sliding_window", family.sliding_window));
  return absl::OkStatus();
}

// Checks one of rope_scaling and rope_parameters; gives the rope_theta that it holds, if any.
absl::StatusOr<std::optional<double>> ReadRopeObject(const JsonFields& fields, absl::string_view key) {
  const nlohmann::json* object = fields.Find(key);
  if (object == nullptr) return std::nullopt;
  if (!object->is_object()) return fields.Wrong(key, "an object");
  const JsonFields rope(*object, absl::StrCat(fields.where(), ": ", key));
  ASSIGN_OR_RETURN(const std::string old_type, rope.String("type", "default"));
  ASSIGN_OR_RETURN(const std::string type, rope.String("rope_type", old_type));
  if (type != "default") return absl::UnimplementedError(absl::StrCat(fields.where(), ": rope_scaling ", Shown(type), " is not supported yet"));
  ASSIGN_OR_RETURN(const double partial, rope.Number("partial_rotary_factor", 1.0));
  if (partial != 1.0) return absl::UnimplementedError(absl::StrCat(rope.where(), ": partial_rotary_factor ", partial, " is not supported yet"));
  if (rope.Find("rope_theta") == nullptr) return std::nullopt;
  ASSIGN_OR_RETURN(const double theta, rope.Number("rope_theta", 0.0));
  return theta;
}

absl::Status ReadRope(const JsonFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const std::optional<double> inside, ReadRopeObject(fields, "rope_parameters"));
  ASSIGN_OR_RETURN(const std::optional<double> in_scaling, ReadRopeObject(fields, "rope_scaling"));
  const std::optional<double> nested = inside.has_value() ? inside : in_scaling;
  ASSIGN_OR_RETURN(config.rope_theta, fields.Number("rope_theta", nested.value_or(10000.0)));
  if (nested.has_value() && *nested != config.rope_theta) {
    return absl::InvalidArgumentError(absl::StrCat(fields.where(), ": rope_theta is ", config.rope_theta, " at the top level but ", *nested, " in ",
                                                   inside.has_value() ? "rope_parameters" : "rope_scaling"));
  }
  if (!(config.rope_theta > 0) || !std::isfinite(config.rope_theta)) {
    return absl::InvalidArgumentError(absl::StrCat(fields.where(), ": rope_theta: wanted a positive number, got ", config.rope_theta));
  }
  return absl::OkStatus();
}

absl::Status ReadSwitches(const JsonFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.tie_word_embeddings, fields.Bool("tie_word_embeddings", false));
  ASSIGN_OR_RETURN(config.attention_bias, fields.Bool("attention_bias", false));
  ASSIGN_OR_RETURN(config.mlp_bias, fields.Bool("mlp_bias", false));
  ASSIGN_OR_RETURN(config.rms_norm_eps, fields.Number("rms_norm_eps", 1e-6));
  if (!(config.rms_norm_eps >= 0 && config.rms_norm_eps < 1)) return fields.Wrong("rms_norm_eps", "a number from 0 to 1");
  ASSIGN_OR_RETURN(const std::string activation, fields.String("hidden_act", "silu"));
  if (activation != "silu")
    return absl::UnimplementedError(absl::StrCat(fields.where(), ": hidden_act ", Shown(activation), " is not supported yet (silu is)"));
  ASSIGN_OR_RETURN(const double dropout, fields.Number("attention_dropout", 0.0));
  if (dropout != 0) {
    return absl::UnimplementedError(absl::StrCat(fields.where(), ": attention_dropout ", dropout,
                                                 ": attention that drops cannot be the same on any number of ranks; set attention_dropout to 0"));
  }
  // What would change the scores themselves. Families that have it set it; none of those here does.
  if (const nlohmann::json* softcap = fields.Find("attn_logit_softcapping"); softcap != nullptr) {
    return absl::UnimplementedError(absl::StrCat(fields.where(), ": attn_logit_softcapping ", ShownJson(*softcap), " is not supported yet"));
  }
  if (const nlohmann::json* quantized = fields.Find("quantization_config"); quantized != nullptr) {
    return absl::UnimplementedError(absl::StrCat(fields.where(), ": quantization_config ", ShownJson(*quantized), " is not supported yet"));
  }
  return absl::OkStatus();
}

absl::Status CheckToken(const JsonFields& fields, absl::string_view key, int64_t id, const ModelConfig& config) {
  if (id < config.vocab_size) return absl::OkStatus();
  return fields.Wrong(key, absl::StrCat("an id below vocab_size ", config.vocab_size));
}

// A negative id means "none", as in the first Llama files. A pad id beyond the vocabulary also does: pads never reach a model here.
absl::Status ReadTokens(const JsonFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.bos_token_id, fields.OptionalInt("bos_token_id"));
  ASSIGN_OR_RETURN(config.pad_token_id, fields.OptionalInt("pad_token_id"));
  if (config.bos_token_id.has_value() && *config.bos_token_id < 0) config.bos_token_id.reset();
  if (config.pad_token_id.has_value() && (*config.pad_token_id < 0 || *config.pad_token_id >= config.vocab_size)) config.pad_token_id.reset();
  if (config.bos_token_id.has_value()) RETURN_IF_ERROR(CheckToken(fields, "bos_token_id", *config.bos_token_id, config));

  const nlohmann::json* eos = fields.Find("eos_token_id");
  if (eos == nullptr) return absl::OkStatus();
  const nlohmann::json list = eos->is_array() ? *eos : nlohmann::json::array({*eos});
  for (const nlohmann::json& item : list) {
    if (!item.is_number_integer()) return fields.Wrong("eos_token_id", "a whole number or a list of them");
    const int64_t id = item.get<int64_t>();
    if (id < 0 && !item.is_number_unsigned()) continue;
    RETURN_IF_ERROR(CheckToken(fields, "eos_token_id", id < 0 ? config.vocab_size : id, config));
    config.eos_token_ids.push_back(id);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ParseConfig(absl::string_view json, absl::string_view where) {
  ASSIGN_OR_RETURN(const nlohmann::json root, ParseJsonObject(json, where));
  const JsonFields fields(root, std::string(where));
  ModelConfig config;
  config.json = std::string(json);
  ASSIGN_OR_RETURN(const Family* family, ReadArchitecture(fields, config));
  RETURN_IF_ERROR(ReadSizes(fields, *family, config));
  RETURN_IF_ERROR(ReadWindow(fields, *family, config));
  RETURN_IF_ERROR(ReadRope(fields, config));
  RETURN_IF_ERROR(ReadSwitches(fields, config));
  RETURN_IF_ERROR(ReadTokens(fields, config));
  return config;
}

}  // namespace moonring::model
