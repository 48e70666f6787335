#include "data/text/tokenizer.h"

#include <functional>
#include <map>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "data/text/json/json_fields.h"
#include "data/text/tokenizer/byte_alphabet.h"
#include "data/text/tokenizer/vocabulary.h"
#include "data/text/tokenizer_formats/sentencepiece_model.h"
#include "data/text/tokenizer_formats/sentencepiece_tokenizer.h"
#include "data/text/tokenizer_formats/tekken.h"
#include "data/text/tokenizer_formats/tiktoken_ranks.h"
#include "data/text/tokenizer_formats/tiktoken_rules.h"
#include "data/text/tokenizer_formats/tokenizer_json.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data {
namespace {

using nlohmann::json;

constexpr absl::string_view kConfigName = "tokenizer_config.json";

// Path of tokenizer_config.json, which is next to the tokenizer file `where`.
std::string ConfigPath(absl::string_view where) {
  return absl::StrCat(where.substr(0, where.rfind('/') + 1), kConfigName);
}

absl::StatusOr<json> ParseConfig(absl::string_view text, absl::string_view where) {
  if (text.empty()) return json();
  const std::string name = ConfigPath(where);
  ASSIGN_OR_RETURN(json config, ParseJson(text, name));
  if (!config.is_object()) return WrongType(config, "an object", name);
  return config;
}

json MemberOrNull(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? json() : *found;
}

// Fails for tokenizer classes that shift the ids of their sentencepiece model and add special
// tokens.
absl::Status CheckNumbersPieces(const json& config, absl::string_view where) {
  const json name = config.is_object() ? MemberOrNull(config, "tokenizer_class") : json();
  if (!name.is_string()) return absl::OkStatus();
  const std::string& known = name.get_ref<const std::string&>();
  for (const char* stem : {"XLMRoberta", "Camembert", "MBart", "Nllb", "Barthez", "XGLM", "Pegasus",
                           "M2M100", "SeamlessM4T"}) {
    if (!absl::StartsWith(known, stem)) continue;
    return absl::UnimplementedError(
        absl::StrCat(where, ": ", known,
                     " numbers the pieces otherwise than their file; it needs a tokenizer.json"));
  }
  return absl::OkStatus();
}

void SetIfAbsent(json& config, const char* key, const std::string& value) {
  if (!config.is_object() || !config.contains(key)) config[key] = value;
}

}  // namespace

// The components of a tokenizer, independent of the file format.
struct Tokenizer::Parts {
  // "normalizer", "pre_tokenizer", "decoder" and, if there are any, "added_tokens", as in
  // tokenizer.json
  json stages;
  std::function<absl::StatusOr<std::unique_ptr<const TokenModel>>(bool byte_level)> make_model;
  std::vector<std::pair<int32_t, AddedToken>> added;  // by id
  bool exact_ids = false;  // whether the ids of added_tokens_decoder must match
};

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::FromJson(
    absl::string_view tokenizer_json, absl::string_view tokenizer_config_json,
    absl::string_view where, const TokenizerOptions& options) {
  ASSIGN_OR_RETURN(const json document, ParseJson(tokenizer_json, where));
  if (!document.is_object()) return WrongType(document, "an object", where);
  ASSIGN_OR_RETURN(const json config, ParseConfig(tokenizer_config_json, where));
  return BuildFromJson(document, config, where, options);
}

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::FromVocabAndMerges(
    absl::string_view vocab_json, absl::string_view merges_txt,
    absl::string_view tokenizer_config_json, absl::string_view where,
    const TokenizerOptions& options) {
  constexpr const char* kEnd = "<|endoftext|>";
  ASSIGN_OR_RETURN(json vocabulary, ParseJson(vocab_json, where));
  ASSIGN_OR_RETURN(json config, ParseConfig(tokenizer_config_json, where));
  if (vocabulary.is_object() && vocabulary.contains(kEnd)) {
    for (const char* key : {"bos_token", "eos_token", "unk_token"}) SetIfAbsent(config, key, kEnd);
  }
  const json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  const json document = {
      {"model",
       {{"type", "BPE"}, {"vocab", std::move(vocabulary)}, {"merges", MergesFromText(merges_txt)}}},
      {"pre_tokenizer", byte_level},
      {"decoder", byte_level}};
  return BuildFromJson(document, config, where, options);
}

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::FromModelFile(
    absl::string_view contents, absl::string_view tokenizer_config_json, absl::string_view where,
    const TokenizerOptions& options) {
  ASSIGN_OR_RETURN(json config, ParseConfig(tokenizer_config_json, where));
  Parts parts;
  parts.exact_ids = true;
  const bool tekken = absl::StartsWith(absl::StripLeadingAsciiWhitespace(contents), "{");
  if (tekken || LooksLikeTiktokenRanks(contents)) {
    Tekken file;  // for tiktoken's ranks, filled with the data that a tekken.json has
    if (tekken) {
      ASSIGN_OR_RETURN(file, ParseTekken(contents, where));
    } else {
      ASSIGN_OR_RETURN(file.ranks, TiktokenRanks::Parse(contents, where));
      ASSIGN_OR_RETURN(file.rule, FindTiktokenRule(file.ranks, where));
    }
    const TiktokenRule& rule = file.rule;
    parts.stages = TiktokenStages(rule);
    parts.make_model = [&](bool) { return TiktokenTokenModel(file.ranks); };
    if (!config.is_object() || !config.contains("added_tokens_decoder")) {
      for (const auto& [text, id] : rule.special_tokens)
        parts.added.emplace_back(id,
                                 AddedToken{.content = text, .normalized = false, .special = true});
      if (!rule.bos.empty()) SetIfAbsent(config, "bos_token", rule.bos);
      SetIfAbsent(config, "eos_token", rule.eos);
    }
    return Build(parts, config, where, options);
  }
  RETURN_IF_ERROR(CheckNumbersPieces(config, where));
  ASSIGN_OR_RETURN(SentencePieceModel model, SentencePieceModel::Parse(contents, where));
  bool prefix_each_part = true;
  if (config.is_object()) {
    ASSIGN_OR_RETURN(prefix_each_part, BoolField(config, "legacy", true, ConfigPath(where)));
    ASSIGN_OR_RETURN(model.add_dummy_prefix, BoolField(config, "add_prefix_space",
                                                       model.add_dummy_prefix, ConfigPath(where)));
  }
  parts.stages = SentencePieceStages(model, prefix_each_part);
  parts.make_model = [&](bool) { return SentencePieceTokenModel(model); };
  parts.added = SentencePieceAddedTokens(model);
  const auto name = [&](const char* key, int64_t id) {
    if (id < 0 || id >= static_cast<int64_t>(model.pieces.size())) return;
    const SentencePieceModel::Piece& piece = model.pieces[id];
    if (piece.type != SentencePieceModel::Type::kNormal &&
        piece.type != SentencePieceModel::Type::kByte)
      SetIfAbsent(config, key, piece.text);
  };
  name("bos_token", model.bos);
  name("eos_token", model.eos);
  name("pad_token", model.pad);
  name("unk_token", model.unknown);
  return Build(parts, config, where, options);
}

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::BuildFromJson(
    const json& document, const json& config, absl::string_view where,
    const TokenizerOptions& options) {
  const json model = MemberOrNull(document, "model");
  const std::string place = absl::StrCat(where, ": model");
  RETURN_IF_ERROR(
      ModelTypeOf(model, place).status());  // first, because its error is the most informative one
  Parts parts;
  for (const char* key : {"normalizer", "pre_tokenizer", "decoder", "added_tokens"})
    parts.stages[key] = MemberOrNull(document, key);
  parts.make_model = [&](bool byte_level) { return ModelFromJson(model, byte_level, place); };
  return Build(parts, config, where, options);
}

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::Build(const Parts& parts,
                                                                  const json& config,
                                                                  absl::string_view where,
                                                                  const TokenizerOptions& options) {
  auto made = std::shared_ptr<Tokenizer>(new Tokenizer);
  made->where_ = std::string(where);
  const auto place = [&](absl::string_view part) { return absl::StrCat(where, ": ", part); };
  const auto stage = [&](const char* name) { return MemberOrNull(parts.stages, name); };
  ASSIGN_OR_RETURN(made->normalizer_,
                   Normalizer::FromJson(stage("normalizer"), place("normalizer")));
  std::optional<bool> add_prefix_space;
  if (config.is_object()) {
    ASSIGN_OR_RETURN(add_prefix_space,
                     BoolField(config, "add_prefix_space", false, ConfigPath(where)));
  }
  ASSIGN_OR_RETURN(
      made->pre_tokenizer_,
      PreTokenizer::FromJson(stage("pre_tokenizer"), add_prefix_space, place("pre_tokenizer")));
  ASSIGN_OR_RETURN(made->model_, parts.make_model(made->pre_tokenizer_->byte_level()));
  ASSIGN_OR_RETURN(made->decoder_, Decoder::FromJson(stage("decoder"), place("decoder")));
  made->added_.emplace(&made->model_->vocabulary());
  RETURN_IF_ERROR(made->ReadAddedTokens(stage("added_tokens"), place("added_tokens")));
  for (const auto& [id, token] : parts.added) made->added_->Add(token, id);
  RETURN_IF_ERROR(made->ReadConfig(config, parts.exact_ids, ConfigPath(where)));
  for (const std::string& token : options.add_tokens) made->AddLater(token, /*special=*/false);
  for (const std::string& token : options.add_special_tokens)
    made->AddLater(token, /*special=*/true);
  made->split_special_ = options.split_special_tokens;
  try {
    made->Finish();
  } catch (const std::runtime_error& error) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": ", error.what()));
  }
  return made;
}

// Copies everything except the workspaces.
Tokenizer::Tokenizer(const Tokenizer& other)
    : where_(other.where_),
      model_(other.model_),
      normalizer_(other.normalizer_),
      pre_tokenizer_(other.pre_tokenizer_),
      decoder_(other.decoder_),
      added_(other.added_),
      bos_(other.bos_),
      eos_(other.eos_),
      pad_(other.pad_),
      unk_(other.unk_),
      adds_bos_(other.adds_bos_),
      split_special_(other.split_special_),
      more_special_(other.more_special_),
      additions_(other.additions_),
      decoded_bytes_(other.decoded_bytes_),
      decoded_begin_(other.decoded_begin_) {}

std::shared_ptr<const Tokenizer> Tokenizer::WithStopWords(
    const std::shared_ptr<const Tokenizer>& tokenizer, const std::optional<std::string>& eos,
    const std::vector<std::string>& stop_words) {
  constexpr const char* kEnd = "<|endoftext|>";
  auto made = std::shared_ptr<Tokenizer>(new Tokenizer(*tokenizer));
  const auto end_with = [&](const std::string& word) {
    if (made->eos_.has_value() && made->TokenOf(*made->eos_) == word) return;
    made->eos_ = made->AddLater(word, /*special=*/true);
    made->additions_.eos = true;
  };
  if (eos.has_value()) end_with(*eos);
  if (!made->eos_.has_value()) end_with(kEnd);
  if (!made->pad_.has_value()) made->pad_ = made->eos_;
  for (const std::string& word : stop_words) {
    if (absl::c_linear_search(made->more_special_, word)) continue;
    const size_t before = made->additions_.ids.size();
    made->AddLater(word, /*special=*/true);
    made->more_special_.push_back(word);
    if (made->additions_.ids.size() > before) made->additions_.stop_words.push_back(word);
  }
  if (made->additions_.ids.size() > tokenizer->additions_.ids.size()) made->Finish();
  return made;
}

// Adds a token if it is new, and returns its id.
int32_t Tokenizer::AddLater(const std::string& token, bool special) {
  const std::optional<int32_t> added =
      added_->AddLater({.content = token, .normalized = !special, .special = special});
  if (added.has_value()) additions_.ids.push_back(*added);
  return IdOf(token).value_or(-1);  // -1: the token is empty
}

void Tokenizer::Finish() {
  added_->Build(*normalizer_, split_special_);
  FillDecodeTable();
}

absl::Status Tokenizer::ReadAddedTokens(const json& tokens, absl::string_view where) {
  if (tokens.is_null()) return absl::OkStatus();
  if (!tokens.is_array()) return WrongType(tokens, "an array", where);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string place = absl::StrCat(where, "[", i, "]");
    ASSIGN_OR_RETURN(const AddedToken token, AddedTokenFromJson(tokens[i], place));
    RETURN_IF_ERROR(CheckTokenSize(token.content, place));
    ASSIGN_OR_RETURN(const int64_t id, IntegerField(tokens[i], "id", place));
    const std::optional<int32_t> given = added_->Add(token);
    if (given.has_value() && *given != id) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": \"", token.content, "\" says id ", id, ", but ", *given,
                       model_->IdOf(token.content).has_value() ? " is its id in the vocabulary"
                                                               : " is the next free id"));
    }
  }
  return absl::OkStatus();
}

// Only these classes add a bos (TokenizersBackend is the class of all tokenizers in Transformers
// 5); PreTrainedTokenizerFast ignores the key.
absl::Status Tokenizer::ReadAddsBos(const json& config, absl::string_view where) {
  const json name = MemberOrNull(config, "tokenizer_class");
  const std::string_view known =
      name.is_string() ? std::string_view(name.get_ref<const std::string&>()) : "";
  const auto is = [&](std::string_view stem) {
    return known.starts_with(stem) && (known.substr(stem.size()) == "Tokenizer" ||
                                       known.substr(stem.size()) == "TokenizerFast");
  };
  const bool by_default = is("Llama") || is("CodeLlama") || is("Gemma") || is("Cohere");
  if (!by_default && !is("GPT2") && !is("GPTNeoX") && known != "TokenizersBackend")
    return absl::OkStatus();
  ASSIGN_OR_RETURN(adds_bos_, BoolField(config, "add_bos_token", by_default, where));
  return absl::OkStatus();
}

absl::Status Tokenizer::ReadAddedTokensDecoder(const json& config, bool exact_ids,
                                               absl::string_view where) {
  const json listed = MemberOrNull(config, "added_tokens_decoder");
  if (listed.is_null()) return absl::OkStatus();
  if (!listed.is_object())
    return WrongType(listed, "an object", absl::StrCat(where, ": added_tokens_decoder"));
  std::map<int32_t, AddedToken> by_id;
  for (const auto& [key, value] : listed.items()) {
    const std::string place = absl::StrCat(where, ": added_tokens_decoder[\"", key, "\"]");
    int32_t id = 0;
    if (!absl::SimpleAtoi(key, &id))
      return absl::InvalidArgumentError(absl::StrCat(place, ": the key is not an id"));
    ASSIGN_OR_RETURN(by_id[id], AddedTokenFromJson(value, place));
  }
  const int64_t largest =
      Vocabulary::LargestId(static_cast<size_t>(model_->end_id()) + by_id.size());
  for (const auto& [id, token] : by_id) {
    if (exact_ids && (id < 0 || id > largest)) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": added_tokens_decoder: \"",
                                                     token.content, "\" has id ", id,
                                                     ", expected 0 to ", largest));
    }
    added_->Add(token, exact_ids ? std::optional(id) : std::nullopt);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<int32_t>> Tokenizer::AddSpecial(const json& value,
                                                             absl::string_view where) {
  if (value.is_null()) return std::optional<int32_t>();
  ASSIGN_OR_RETURN(AddedToken token, AddedTokenFromJson(value, where));
  token.special = true;
  return added_->Add(token);
}

// Reads a list (additional_special_tokens of Transformers 4, extra_special_tokens of 5) or an
// object by name (extra_special_tokens of 4).
absl::Status Tokenizer::ReadMoreSpecialTokens(const json& config, absl::string_view where) {
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    const json more = MemberOrNull(config, key);
    if (more.is_null()) continue;
    const std::string place = absl::StrCat(where, ": ", key);
    if (!more.is_array() && !more.is_object()) return WrongType(more, "an array", place);
    for (const auto& [name, token] : more.items()) {
      ASSIGN_OR_RETURN(const std::optional<int32_t> id,
                       AddSpecial(token, absl::StrCat(place, "[", name, "]")));
      if (id.has_value()) more_special_.push_back(TokenOf(*id));
    }
  }
  return absl::OkStatus();
}

absl::Status Tokenizer::ReadConfig(const json& config, bool exact_ids, absl::string_view where) {
  if (config.is_null()) return absl::OkStatus();
  RETURN_IF_ERROR(ReadAddsBos(config, where));
  RETURN_IF_ERROR(ReadAddedTokensDecoder(config, exact_ids, where));
  std::optional<int32_t> unnamed;
  const std::pair<const char*, std::optional<int32_t>*> named[] = {
      {"bos_token", &bos_},    {"eos_token", &eos_}, {"unk_token", &unk_},
      {"sep_token", &unnamed}, {"pad_token", &pad_}, {"cls_token", &unnamed},
      {"mask_token", &unnamed}};
  for (const auto& [key, id] : named) {
    ASSIGN_OR_RETURN(*id, AddSpecial(MemberOrNull(config, key), absl::StrCat(where, ": ", key)));
  }
  return ReadMoreSpecialTokens(config, where);
}

int32_t Tokenizer::end_id() const {
  const int32_t behind_added = added_->by_id().empty() ? 0 : added_->by_id().rbegin()->first + 1;
  return std::max(model_->end_id(), behind_added);
}

void Tokenizer::FillDecodeTable() {
  constexpr size_t kMostDecoded = size_t{1} << 30;
  const int32_t ids = end_id();
  decoded_bytes_.clear();
  decoded_begin_.clear();
  decoded_begin_.reserve(static_cast<size_t>(ids) + 1);
  for (int32_t id = 0; id < ids; ++id) {
    decoded_begin_.push_back(static_cast<uint32_t>(decoded_bytes_.size()));
    decoded_bytes_.append(decoder_->Token(TokenOf(id)));
    if (decoded_bytes_.size() > kMostDecoded)
      throw std::runtime_error(
          absl::StrCat("its decoder makes more than ", kMostDecoded, " bytes of the tokens"));
  }
  decoded_begin_.push_back(static_cast<uint32_t>(decoded_bytes_.size()));
}

std::unique_ptr<TokenModel::Workspace> Tokenizer::TakeWorkspace() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (idle_.empty()) return model_->NewWorkspace();
  std::unique_ptr<TokenModel::Workspace> workspace = std::move(idle_.back());
  idle_.pop_back();
  return workspace;
}

std::vector<int32_t> Tokenizer::Encode(absl::string_view text) const try {
  std::string repaired;
  if (ValidUtf8Prefix(text) < text.size()) text = repaired = ReplaceMalformedUtf8(text);
  std::unique_ptr<TokenModel::Workspace> workspace = TakeWorkspace();
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3);
  const bool wants_letters = pre_tokenizer_->byte_level() && !model_->takes_bytes();
  added_->Split(
      text, *normalizer_,
      [&](absl::string_view part, bool begins_text) {
        pre_tokenizer_->Split(part, begins_text, [&](absl::string_view word) {
          if (wants_letters) return model_->Encode(LettersOfBytes(word), *workspace, ids);
          model_->Encode(word, *workspace, ids);
        });
      },
      [&](int32_t id) { ids.push_back(id); });
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_.push_back(std::move(workspace));
  return ids;
} catch (const std::runtime_error& error) {  // thrown by stages that reach a limit
  throw std::runtime_error(absl::StrCat(where_, ": ", error.what()));
}

std::string Tokenizer::BytesOf(int32_t id) const {
  if (id < 0 || static_cast<size_t>(id) + 1 >= decoded_begin_.size()) return "";
  return decoder_->BytesInside(
      absl::string_view(decoded_bytes_)
          .substr(decoded_begin_[id], decoded_begin_[id + 1] - decoded_begin_[id]));
}

std::string Tokenizer::Decode(absl::Span<const int32_t> ids, bool skip_special) const {
  Decoder::Pieces pieces;
  for (const int32_t id : ids) {
    if (id < 0 || static_cast<size_t>(id) + 1 >= decoded_begin_.size() ||
        (skip_special && IsSpecial(id)))
      continue;
    pieces.Add(absl::string_view(decoded_bytes_)
                   .substr(decoded_begin_[id], decoded_begin_[id + 1] - decoded_begin_[id]));
  }
  return decoder_->Join(std::move(pieces));
}

std::optional<int32_t> Tokenizer::IdOf(absl::string_view token) const {
  const std::optional<int32_t> added = added_->IdOf(token);
  return added.has_value() ? added : model_->IdOf(token);
}

std::string Tokenizer::TokenOf(int32_t id) const {
  if (const auto added = added_->by_id().find(id); added != added_->by_id().end())
    return added->second.content;
  const std::string* token = model_->TokenOf(id);
  return token == nullptr ? std::string() : *token;
}

std::vector<int32_t> Tokenizer::more_special_ids() const {
  std::vector<int32_t> ids;
  for (const std::string& token : more_special_) {
    if (const std::optional<int32_t> id = IdOf(token); id.has_value()) ids.push_back(*id);
  }
  return ids;
}

bool Tokenizer::IsSpecial(int32_t id) const {
  const auto added = added_->by_id().find(id);
  return added != added_->by_id().end() && added->second.special;
}

int64_t Tokenizer::vocab_size() const { return model_->size() + added_->new_tokens(); }

}  // namespace moonring::data
