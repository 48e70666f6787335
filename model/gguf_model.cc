#include "model/gguf_model.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "comm/status_macros.h"
#include "model/families/llama.h"
#include "model/gguf_types.h"
#include "model/json_text.h"
#include "model/weight_shape.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

using nlohmann::ordered_json;

absl::StatusOr<int64_t> IntOr(const GgufFile& file, const std::string& key, int64_t otherwise) {
  if (!file.Has(key)) return otherwise;
  return file.Int(key);
}

absl::Status CheckSupported(const GgufFile& file) {
  ASSIGN_OR_RETURN(const absl::string_view architecture, file.String("general.architecture"));
  const auto refuse = [&file](auto... pieces) { return absl::UnimplementedError(absl::StrCat(file.path(), ": ", pieces..., " is not supported yet")); };
  if (architecture != llama::kGgufArchitecture) {
    return absl::UnimplementedError(
        absl::StrCat(file.path(), ": general.architecture: '", Shown(architecture), "' is not supported yet; supported: ", llama::kGgufArchitecture));
  }
  const std::string scaling = "llama.rope.scaling.type";
  if (file.Has(scaling)) {
    ASSIGN_OR_RETURN(const absl::string_view type, file.String(scaling));
    if (type != "none") return refuse("rope_scaling ", Shown(type));
  }
  if (file.tensors().contains("rope_freqs.weight")) return refuse("rope_scaling llama3 (rope_freqs.weight)");
  ASSIGN_OR_RETURN(const int64_t experts, IntOr(file, "llama.expert_count", 0));
  if (experts != 0) return refuse("a mixture of experts (llama.expert_count ", experts, ")");
  return absl::OkStatus();
}

// Rows of the embedding: what is really there. The metadata's counts must agree with it; a tokenizer may have fewer tokens (padding).
absl::StatusOr<int64_t> VocabularySize(const GgufFile& file) {
  const auto embedding = file.tensors().find("token_embd.weight");
  if (embedding == file.tensors().end()) return absl::InvalidArgumentError(absl::StrCat(file.path(), ": the tensor token_embd.weight is missing"));
  if (embedding->second.shape.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ": token_embd.weight: wanted [vocab, hidden], got ", ShapeText(embedding->second.shape)));
  }
  const int64_t rows = embedding->second.shape[0];
  ASSIGN_OR_RETURN(const int64_t said, IntOr(file, "llama.vocab_size", rows));
  if (said != rows) return absl::InvalidArgumentError(absl::StrCat(file.path(), ": llama.vocab_size is ", said, " but token_embd.weight has ", rows, " rows"));
  if (const auto tokens = file.metadata().find("tokenizer.ggml.tokens"); tokens != file.metadata().end()) {
    const GgufFile::Array* array = std::get_if<GgufFile::Array>(&tokens->second);
    if (array != nullptr && array->count > static_cast<uint64_t>(rows)) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), ": tokenizer.ggml.tokens has ", array->count, " tokens but token_embd.weight only ", rows, " rows"));
    }
  }
  return rows;
}

absl::StatusOr<double> DecimalOr(const GgufFile& file, const std::string& key, double otherwise) {
  if (!file.Has(key)) return otherwise;
  ASSIGN_OR_RETURN(const double value, file.Number(key));
  return ShortestDecimal(static_cast<float>(value));
}

absl::Status AddSizes(const GgufFile& file, ordered_json& config) {
  ASSIGN_OR_RETURN(const int64_t hidden, file.Int("llama.embedding_length"));
  ASSIGN_OR_RETURN(const int64_t heads, file.Int("llama.attention.head_count"));
  if (hidden < 1 || heads < 1)
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": llama.embedding_length ", hidden, " and llama.attention.head_count ", heads, ": wanted positive numbers"));
  ASSIGN_OR_RETURN(const int64_t kv_heads, IntOr(file, "llama.attention.head_count_kv", heads));
  ASSIGN_OR_RETURN(const int64_t head_dim, IntOr(file, "llama.attention.key_length", hidden / heads));
  ASSIGN_OR_RETURN(const int64_t value_dim, IntOr(file, "llama.attention.value_length", head_dim));
  ASSIGN_OR_RETURN(const int64_t rotary_dim, IntOr(file, "llama.rope.dimension_count", head_dim));
  if (value_dim != head_dim || rotary_dim != head_dim) {
    return absl::UnimplementedError(absl::StrCat(file.path(), ": heads of ", head_dim, " for keys, ", value_dim, " for values, ", rotary_dim,
                                                 " of them rotary: unequal sizes are not supported yet"));
  }
  ASSIGN_OR_RETURN(config["hidden_size"], file.Int("llama.embedding_length"));
  ASSIGN_OR_RETURN(config["intermediate_size"], file.Int("llama.feed_forward_length"));
  ASSIGN_OR_RETURN(config["num_hidden_layers"], file.Int("llama.block_count"));
  config["num_attention_heads"] = heads;
  config["num_key_value_heads"] = kv_heads;
  config["head_dim"] = head_dim;
  ASSIGN_OR_RETURN(config["max_position_embeddings"], file.Int("llama.context_length"));
  ASSIGN_OR_RETURN(const double eps, file.Number("llama.attention.layer_norm_rms_epsilon"));
  config["rms_norm_eps"] = ShortestDecimal(static_cast<float>(eps));
  ASSIGN_OR_RETURN(config["rope_theta"], DecimalOr(file, "llama.rope.freq_base", 10000.0));
  config["rope_scaling"] = nullptr;
  config["initializer_range"] = 1.0 / std::sqrt(static_cast<double>(hidden));
  return absl::OkStatus();
}

absl::Status AddTokens(const GgufFile& file, int64_t vocabulary, ordered_json& config) {
  constexpr std::pair<const char*, const char*> kKeys[] = {{"bos_token_id", "bos"}, {"eos_token_id", "eos"}, {"pad_token_id", "padding"}};
  for (const auto& [name, gguf] : kKeys) {
    ASSIGN_OR_RETURN(const int64_t id, IntOr(file, absl::StrCat("tokenizer.ggml.", gguf, "_token_id"), -1));
    if (id >= vocabulary)
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), ": tokenizer.ggml.", gguf, "_token_id ", id, " is not below the vocabulary's size ", vocabulary));
    if (id >= 0) config[name] = id;
    else config[name] = nullptr;
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

absl::StatusOr<std::string> ConfigFromGguf(const GgufFile& file) {
  RETURN_IF_ERROR(CheckSupported(file));
  ASSIGN_OR_RETURN(const int64_t vocabulary, VocabularySize(file));
  ordered_json config = {{"architectures", {std::string(llama::kArchitecture)}}, {"model_type", std::string(llama::kModelType)}};
  config["attention_bias"] = file.tensors().contains("blk.0.attn_q.bias");
  config["attention_dropout"] = 0.0;
  config["mlp_bias"] = file.tensors().contains("blk.0.ffn_gate.bias");
  config["hidden_act"] = "silu";
  RETURN_IF_ERROR(AddSizes(file, config));
  config["tie_word_embeddings"] = !file.tensors().contains("output.weight");
  config["vocab_size"] = vocabulary;
  RETURN_IF_ERROR(AddTokens(file, vocabulary, config));
  config["torch_dtype"] = "float32";
  config["use_cache"] = true;
  return config.dump(2) + "\n";
}

absl::StatusOr<std::unique_ptr<GgufModel>> GgufModel::Open(std::shared_ptr<const GgufFile> file) {
  std::unique_ptr<GgufModel> model(new GgufModel(std::move(file)));
  ASSIGN_OR_RETURN(const std::string config, ConfigFromGguf(model->file()));
  ASSIGN_OR_RETURN(model->config_, ParseConfig(config, model->file().path()));
  for (const auto& [gguf_name, tensor] : model->file().tensors()) {
    const std::optional<std::string> name = llama::NameFromGguf(gguf_name);
    const std::string& published = name.has_value() ? *name : gguf_name;  // an unknown tensor shows up as an extra one
    const GgufType& type = *FindGgufType(tensor.type);
    model->weights_[published] = {model->file().path(), tensor.shape, type.readable() ? "" : UnreadableGgufType(type)};
    model->gguf_name_[published] = gguf_name;
  }
  return model;
}

absl::StatusOr<at::Tensor> GgufModel::Read(const std::string& name) const {
  const auto found = gguf_name_.find(name);
  if (found == gguf_name_.end()) return absl::NotFoundError(absl::StrCat(file_->path(), ": no tensor '", name, "'"));
  ASSIGN_OR_RETURN(const at::Tensor stored, file_->Read(found->second));
  const int64_t heads = llama::HeadsInterleavedInGguf(name, config_);
  if (heads == 0) return stored;
  if (stored.size(0) % (2 * heads) != 0)
    return absl::InvalidArgumentError(absl::StrCat(file_->path(), ": ", name, ": ", stored.size(0), " rows for ", heads, " heads of an even size"));
  // Row (head, pair, half) goes to (head, half, pair).
  return stored.reshape({heads, stored.size(0) / heads / 2, 2, -1}).transpose(1, 2).reshape(stored.sizes());
}

}  // namespace moonring::model
