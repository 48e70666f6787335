#include "data/tokenizer.h"

#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "comm/status_macros.h"
#include "data/json_fields.h"
#include "data/tokenizer_json.h"
#include "data/utf8.h"

namespace moonring::data {
namespace {

using nlohmann::json;

constexpr absl::string_view kConfigName = "tokenizer_config.json";

// It lies beside the tokenizer, which `where` names.
absl::StatusOr<json> ParseConfig(absl::string_view text, absl::string_view where) {
  if (text.empty()) return json();
  const std::string name = absl::StrCat(where.substr(0, where.rfind('/') + 1), kConfigName);
  ASSIGN_OR_RETURN(json config, ParseJson(text, name));
  if (!config.is_object()) return WrongType(config, "an object", name);
  return config;
}

json FieldOrNull(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? json() : *found;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::FromJson(absl::string_view tokenizer_json, absl::string_view tokenizer_config_json,
                                                                     absl::string_view where) {
  ASSIGN_OR_RETURN(const json document, ParseJson(tokenizer_json, where));
  if (!document.is_object()) return WrongType(document, "an object", where);
  ASSIGN_OR_RETURN(const json config, ParseConfig(tokenizer_config_json, where));
  return Build(document, config, where);
}

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::FromVocabAndMerges(absl::string_view vocab_json, absl::string_view merges_txt,
                                                                               absl::string_view tokenizer_config_json, absl::string_view where) {
  constexpr const char* kEnd = "<|endoftext|>";
  ASSIGN_OR_RETURN(json vocabulary, ParseJson(vocab_json, where));
  ASSIGN_OR_RETURN(json config, ParseConfig(tokenizer_config_json, where));
  if (vocabulary.is_object() && vocabulary.contains(kEnd)) {
    for (const char* key : {"bos_token", "eos_token"}) {
      if (!config.is_object() || !config.contains(key)) config[key] = kEnd;
    }
  }
  const json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  const json document = {{"model", {{"type", "BPE"}, {"vocab", std::move(vocabulary)}, {"merges", MergesFromText(merges_txt)}}},
                         {"pre_tokenizer", byte_level},
                         {"decoder", byte_level}};
  return Build(document, config, where);
}

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::Build(const json& document, const json& config, absl::string_view where) {
  auto made = std::shared_ptr<Tokenizer>(new Tokenizer);
  const auto place = [&](absl::string_view part) { return absl::StrCat(where, ": ", part); };
  const json model = FieldOrNull(document, "model");
  RETURN_IF_ERROR(CheckModelType(model, place("model")));  // which says more of a file than what the other parts lack
  ASSIGN_OR_RETURN(made->normalizer_, Normalizer::FromJson(FieldOrNull(document, "normalizer"), place("normalizer")));
  std::optional<bool> add_prefix_space;
  if (config.is_object()) {
    ASSIGN_OR_RETURN(add_prefix_space, BoolField(config, "add_prefix_space", false, kConfigName));
  }
  ASSIGN_OR_RETURN(made->pre_tokenizer_, PreTokenizer::FromJson(FieldOrNull(document, "pre_tokenizer"), add_prefix_space, place("pre_tokenizer")));
  ASSIGN_OR_RETURN(made->bpe_, BpeFromJson(model, made->pre_tokenizer_->byte_level() ? BpeAlphabet::kBytes : BpeAlphabet::kCharacters, place("model")));
  ASSIGN_OR_RETURN(made->decoder_, Decoder::FromJson(FieldOrNull(document, "decoder"), place("decoder")));
  made->added_.emplace(made->bpe_.get());
  RETURN_IF_ERROR(made->ReadAddedTokens(FieldOrNull(document, "added_tokens"), place("added_tokens")));
  RETURN_IF_ERROR(made->ReadConfig(config, kConfigName));
  made->added_->Build(*made->normalizer_);
  made->FillDecodeTable();
  return made;
}

absl::Status Tokenizer::ReadAddedTokens(const json& tokens, absl::string_view where) {
  if (tokens.is_null()) return absl::OkStatus();
  if (!tokens.is_array()) return WrongType(tokens, "an array", where);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string place = absl::StrCat(where, "[", i, "]");
    ASSIGN_OR_RETURN(const AddedToken token, AddedTokenFromJson(tokens[i], place));
    ASSIGN_OR_RETURN(const int64_t id, IntegerField(tokens[i], "id", place));
    const std::optional<int32_t> given = added_->Add(token);
    if (given.has_value() && *given != id) {
      return absl::InvalidArgumentError(absl::StrCat(place, ": \"", token.content, "\" says id ", id, ", but ", *given,
                                                     bpe_->IdOf(token.content).has_value() ? " is its id in the vocabulary" : " is the next free id"));
    }
  }
  return absl::OkStatus();
}

// Only these classes know of a bos; PreTrainedTokenizerFast passes over the key.
absl::Status Tokenizer::ReadAddsBos(const json& config, absl::string_view where) {
  const json name = FieldOrNull(config, "tokenizer_class");
  const std::string_view known = name.is_string() ? std::string_view(name.get_ref<const std::string&>()) : "";
  const auto is = [&](std::string_view stem) {
    return known.starts_with(stem) && (known.substr(stem.size()) == "Tokenizer" || known.substr(stem.size()) == "TokenizerFast");
  };
  const bool by_default = is("Llama") || is("CodeLlama") || is("Gemma") || is("Cohere");
  if (!by_default && !is("GPT2") && !is("GPTNeoX")) return absl::OkStatus();
  ASSIGN_OR_RETURN(adds_bos_, BoolField(config, "add_bos_token", by_default, where));
  return absl::OkStatus();
}

absl::Status Tokenizer::ReadConfig(const json& config, absl::string_view where) {
  if (config.is_null()) return absl::OkStatus();
  RETURN_IF_ERROR(ReadAddsBos(config, where));
  if (const json listed = FieldOrNull(config, "added_tokens_decoder"); !listed.is_null()) {
    if (!listed.is_object()) return WrongType(listed, "an object", absl::StrCat(where, ": added_tokens_decoder"));
    std::map<int64_t, AddedToken> by_id;
    for (const auto& [key, value] : listed.items()) {
      const std::string place = absl::StrCat(where, ": added_tokens_decoder[\"", key, "\"]");
      int64_t id = 0;
      if (!absl::SimpleAtoi(key, &id)) return absl::InvalidArgumentError(absl::StrCat(place, ": the key is not an id"));
      ASSIGN_OR_RETURN(by_id[id], AddedTokenFromJson(value, place));
    }
    for (const auto& [id, token] : by_id) added_->Add(token);
  }
  const auto read = [&](const json& value, const std::string& place) -> absl::StatusOr<std::optional<int32_t>> {
    if (value.is_null()) return std::optional<int32_t>();
    ASSIGN_OR_RETURN(AddedToken token, AddedTokenFromJson(value, place));
    token.special = true;
    return added_->Add(token);
  };
  std::optional<int32_t> unnamed;
  const std::pair<const char*, std::optional<int32_t>*> named[] = {{"bos_token", &bos_},    {"eos_token", &eos_}, {"unk_token", &unk_},
                                                                   {"sep_token", &unnamed}, {"pad_token", &pad_}, {"cls_token", &unnamed},
                                                                   {"mask_token", &unnamed}};
  for (const auto& [key, id] : named) {
    ASSIGN_OR_RETURN(*id, read(FieldOrNull(config, key), absl::StrCat(where, ": ", key)));
  }
  const json more = FieldOrNull(config, "additional_special_tokens");
  if (more.is_null()) return absl::OkStatus();
  if (!more.is_array()) return WrongType(more, "an array", absl::StrCat(where, ": additional_special_tokens"));
  for (size_t i = 0; i < more.size(); ++i) {
    ASSIGN_OR_RETURN(unnamed, read(more[i], absl::StrCat(where, ": additional_special_tokens[", i, "]")));
  }
  return absl::OkStatus();
}

void Tokenizer::FillDecodeTable() {
  int32_t ids = bpe_->end_id();
  if (!added_->by_id().empty()) ids = std::max(ids, added_->by_id().rbegin()->first + 1);
  decoded_begin_.reserve(static_cast<size_t>(ids) + 1);
  for (int32_t id = 0; id < ids; ++id) {
    decoded_begin_.push_back(static_cast<uint32_t>(decoded_bytes_.size()));
    decoded_bytes_.append(decoder_->Token(TokenOf(id)));
  }
  decoded_begin_.push_back(static_cast<uint32_t>(decoded_bytes_.size()));
}

std::unique_ptr<Bpe::Workspace> Tokenizer::TakeWorkspace() const {
  absl::MutexLock lock(&mutex_);
  if (idle_.empty()) return std::make_unique<Bpe::Workspace>();
  std::unique_ptr<Bpe::Workspace> workspace = std::move(idle_.back());
  idle_.pop_back();
  return workspace;
}

std::vector<int32_t> Tokenizer::Encode(absl::string_view text) const {
  std::string repaired;
  if (ValidUtf8Prefix(text) < text.size()) text = repaired = ReplaceMalformedUtf8(text);
  std::unique_ptr<Bpe::Workspace> workspace = TakeWorkspace();
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3);
  added_->Split(
      text, *normalizer_,
      [&](absl::string_view part, bool begins_text) {
        pre_tokenizer_->Split(part, begins_text, [&](absl::string_view word) { bpe_->Encode(word, *workspace, ids); });
      },
      [&](int32_t id) { ids.push_back(id); });
  absl::MutexLock lock(&mutex_);
  idle_.push_back(std::move(workspace));
  return ids;
}

std::string Tokenizer::Decode(absl::Span<const int32_t> ids, bool skip_special) const {
  Decoder::Pieces pieces;
  for (const int32_t id : ids) {
    if (id < 0 || static_cast<size_t>(id) + 1 >= decoded_begin_.size() || (skip_special && IsSpecial(id))) continue;
    pieces.Add(absl::string_view(decoded_bytes_).substr(decoded_begin_[id], decoded_begin_[id + 1] - decoded_begin_[id]));
  }
  return decoder_->Join(std::move(pieces));
}

std::optional<int32_t> Tokenizer::IdOf(absl::string_view token) const {
  const std::optional<int32_t> added = added_->IdOf(token);
  return added.has_value() ? added : bpe_->IdOf(token);
}

std::string Tokenizer::TokenOf(int32_t id) const {
  if (const auto added = added_->by_id().find(id); added != added_->by_id().end()) return added->second.content;
  const std::string* token = bpe_->TokenOf(id);
  return token == nullptr ? std::string() : *token;
}

bool Tokenizer::IsSpecial(int32_t id) const {
  const auto added = added_->by_id().find(id);
  return added != added_->by_id().end() && added->second.special;
}

int64_t Tokenizer::vocab_size() const { return bpe_->size() + added_->new_tokens(); }

}  // namespace moonring::data
