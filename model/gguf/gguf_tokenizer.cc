#include "model/gguf/gguf_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/status/status_macros.h"
#include "base/text/ordered_json.h"
#include "model/files/json_text.h"
#include "model/gguf/gguf_splitting_rules.h"
#include "model/gguf/gguf_token_type.h"
#include "model/gguf/sentencepiece_merges.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

using base::OrderedJson;

constexpr auto kUnknown = static_cast<int64_t>(GgufTokenType::kUnknown),
               kControl = static_cast<int64_t>(GgufTokenType::kControl),
               kUserDefined = static_cast<int64_t>(GgufTokenType::kUserDefined),
               kByte = static_cast<int64_t>(GgufTokenType::kByte);

struct Vocabulary {
  std::vector<absl::string_view> tokens;
  std::vector<std::pair<absl::string_view, absl::string_view>> merges;
  std::vector<int64_t> types;               // empty if the file has none
  const GgufSplittingRule* rule = nullptr;  // null for sentencepiece
  bool space_prefix = false;                // sentencepiece: add_space_prefix
  std::deque<std::string> rewritten;        // texts of tokens that are changed from the file's
};

absl::Status Lying(const GgufFile& file, const std::string& key, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(file.path(), ": tokenizer.ggml.", key, ": ", what));
}

absl::StatusOr<const GgufSplittingRule*> FindRule(const GgufFile& file) {
  absl::string_view name = "default";
  if (file.Has("tokenizer.ggml.pre")) {
    ASSIGN_OR_RETURN(name, file.String("tokenizer.ggml.pre"));
  }
  auto rule = FindGgufSplittingRule(name);
  if (!rule.ok())
    return base::WithContext(rule.status(), absl::StrCat(file.path(), ": tokenizer.ggml.pre"));
  return rule;
}

absl::Status ReadTokens(const GgufFile& file, Vocabulary& vocabulary) {
  ASSIGN_OR_RETURN(vocabulary.tokens, file.Strings("tokenizer.ggml.tokens"));
  if (!file.Has("tokenizer.ggml.token_type")) return absl::OkStatus();
  ASSIGN_OR_RETURN(vocabulary.types, file.Ints("tokenizer.ggml.token_type"));
  if (vocabulary.types.size() == vocabulary.tokens.size()) return absl::OkStatus();
  return Lying(
      file, "token_type",
      absl::StrCat(vocabulary.types.size(), " types for ", vocabulary.tokens.size(), " tokens"));
}

absl::Status CheckDistinct(const GgufFile& file,
                           const absl::flat_hash_set<absl::string_view>& known,
                           const Vocabulary& vocabulary) {
  if (known.size() == vocabulary.tokens.size()) return absl::OkStatus();
  return Lying(file, "tokens", "two tokens have the same text");
}

absl::Status ReadMerges(const GgufFile& file, Vocabulary& vocabulary) {
  const absl::flat_hash_set<absl::string_view> known(vocabulary.tokens.begin(),
                                                     vocabulary.tokens.end());
  RETURN_IF_ERROR(CheckDistinct(file, known, vocabulary));
  ASSIGN_OR_RETURN(const std::vector<absl::string_view> merges,
                   file.Strings("tokenizer.ggml.merges"));
  vocabulary.merges.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    const std::vector<absl::string_view> parts = absl::StrSplit(merges[i], ' ');
    if (parts.size() != 2 || !known.contains(parts[0]) || !known.contains(parts[1]) ||
        !known.contains(absl::StrCat(parts[0], parts[1]))) {
      return Lying(file, "merges",
                   absl::StrCat("number ", i, ", '", Shown(merges[i]),
                                "', does not join two tokens to a third"));
    }
    vocabulary.merges.emplace_back(parts[0], parts[1]);
  }
  return absl::OkStatus();
}

absl::Status MakeMerges(const GgufFile& file, Vocabulary& vocabulary) {
  ASSIGN_OR_RETURN(const std::vector<double> scores, file.Numbers("tokenizer.ggml.scores"));
  if (scores.size() != vocabulary.tokens.size()) {
    return Lying(file, "scores",
                 absl::StrCat(scores.size(), " scores for ", vocabulary.tokens.size(), " tokens"));
  }
  std::vector<SentencePiece> pieces(vocabulary.tokens.size());
  for (size_t id = 0; id < pieces.size(); ++id) {
    absl::string_view& text = vocabulary.tokens[id];
    const int64_t type = vocabulary.types.empty() ? 1 : vocabulary.types[id];
    const bool user_defined = type == kUserDefined;
    if (user_defined && absl::StrContains(text, ' '))
      text = vocabulary.rewritten.emplace_back(
          absl::StrReplaceAll(text, {{" ", kSentencePieceSpace}}));
    if (!std::isfinite(scores[id]))
      return Lying(file, "scores", absl::StrCat("that of token ", id, " is not finite"));
    pieces[id] = {text, user_defined ? 0 : scores[id],
                  type != kUnknown && type != kControl && type != kByte};
  }
  RETURN_IF_ERROR(
      CheckDistinct(file, {vocabulary.tokens.begin(), vocabulary.tokens.end()}, vocabulary));
  vocabulary.merges = SentencePieceMerges(pieces);
  return absl::OkStatus();
}

absl::StatusOr<bool> BoolOr(const GgufFile& file, const std::string& key, bool otherwise) {
  if (!file.Has(key)) return otherwise;
  return file.Bool(key);
}

absl::StatusOr<Vocabulary> ReadVocabulary(const GgufFile& file) {
  Vocabulary vocabulary;
  ASSIGN_OR_RETURN(const absl::string_view model, file.String("tokenizer.ggml.model"));
  if (model == "gpt2") {
    ASSIGN_OR_RETURN(vocabulary.rule, FindRule(file));
    RETURN_IF_ERROR(ReadTokens(file, vocabulary));
    RETURN_IF_ERROR(ReadMerges(file, vocabulary));
    return vocabulary;
  }
  if (model == "llama") {
    ASSIGN_OR_RETURN(vocabulary.space_prefix,
                     BoolOr(file, "tokenizer.ggml.add_space_prefix", true));
    RETURN_IF_ERROR(ReadTokens(file, vocabulary));
    RETURN_IF_ERROR(MakeMerges(file, vocabulary));
    return vocabulary;
  }
  return absl::UnimplementedError(absl::StrCat(
      file.path(), ": tokenizer.ggml.model: '", Shown(model),
      "' is not supported yet; supported: gpt2 (byte-level BPE), llama (sentencepiece)"));
}

// `text` as a JSON string. Bytes that are not UTF-8 (a byte-level vocabulary has none) become
// U+FFFD.
std::string Quoted(absl::string_view text) {
  return nlohmann::json(std::string(text))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The id of a special token by its kind ("bos" for tokenizer.ggml.bos_token_id); nullopt if the
// file has no such key.
absl::StatusOr<std::optional<int64_t>> TokenId(const GgufFile& file, const Vocabulary& vocabulary,
                                               absl::string_view kind) {
  const std::string key = absl::StrCat("tokenizer.ggml.", kind, "_token_id");
  if (!file.Has(key)) return std::nullopt;
  ASSIGN_OR_RETURN(const int64_t id, file.Int(key));
  if (id < 0 || id >= static_cast<int64_t>(vocabulary.tokens.size()))
    return Lying(file, absl::StrCat(kind, "_token_id"),
                 absl::StrCat(id, " is not one of the ", vocabulary.tokens.size(), " tokens"));
  return id;
}

// The id of the unknown token: from the metadata key, or else the id of the token with type
// "unknown".
absl::StatusOr<std::optional<int64_t>> UnknownId(const GgufFile& file,
                                                 const Vocabulary& vocabulary) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> named, TokenId(file, vocabulary, "unknown"));
  const auto found = std::find(vocabulary.types.begin(), vocabulary.types.end(), kUnknown);
  if (named.has_value() || found == vocabulary.types.end()) return named;
  return found - vocabulary.types.begin();
}

// The JSON of "normalizer", "pre_tokenizer" and "decoder".
struct Stages {
  OrderedJson normalizer, pre_tokenizer, decoder;
};

Stages ByteLevelStages(const GgufSplittingRule& rule) {
  return {.normalizer = rule.nfc ? OrderedJson{{"type", "NFC"}} : OrderedJson(nullptr),
          .pre_tokenizer = PreTokenizerOf(rule),
          .decoder = {{"type", "ByteLevel"},
                      {"add_prefix_space", true},
                      {"trim_offsets", true},
                      {"use_regex", true}}};
}

Stages SentencePieceStages(bool space_prefix) {
  const OrderedJson to_space = {
      {"type", "Replace"}, {"pattern", {{"String", kSentencePieceSpace}}}, {"content", " "}};
  const OrderedJson from_space = {
      {"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSentencePieceSpace}};
  OrderedJson decoders =
      OrderedJson::array({to_space, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  OrderedJson normalizer = from_space;
  if (space_prefix) {
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    normalizer = {
        {"type", "Sequence"},
        {"normalizers", OrderedJson::array({{{"type", "Prepend"}, {"prepend", kSentencePieceSpace}},
                                            from_space})}};
  }
  return {.normalizer = normalizer,
          .pre_tokenizer = nullptr,
          .decoder = {{"type", "Sequence"}, {"decoders", decoders}}};
}

bool BosByDefault(const Vocabulary& vocabulary) {
  return vocabulary.rule == nullptr || vocabulary.rule->bos_by_default;
}

// The post-processor that adds BOS before a text if special tokens are requested.
absl::StatusOr<OrderedJson> PostProcessor(const GgufFile& file, const Vocabulary& vocabulary) {
  ASSIGN_OR_RETURN(const bool add_bos,
                   BoolOr(file, "tokenizer.ggml.add_bos_token", BosByDefault(vocabulary)));
  ASSIGN_OR_RETURN(const std::optional<int64_t> id, TokenId(file, vocabulary, "bos"));
  if (!add_bos || !id.has_value()) return OrderedJson(nullptr);
  const std::string bos(vocabulary.tokens[*id]);
  const auto special = [&bos](int type) {
    return OrderedJson{{"SpecialToken", {{"id", bos}, {"type_id", type}}}};
  };
  const auto sequence = [](const char* name, int type) {
    return OrderedJson{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  OrderedJson special_tokens = OrderedJson::object();
  special_tokens[bos] = {
      {"id", bos}, {"ids", OrderedJson::array({*id})}, {"tokens", OrderedJson::array({bos})}};
  return OrderedJson{
      {"type", "TemplateProcessing"},
      {"single", OrderedJson::array({special(0), sequence("A", 0)})},
      {"pair", OrderedJson::array({special(0), sequence("A", 0), special(1), sequence("B", 1)})},
      {"special_tokens", special_tokens}};
}

OrderedJson AddedTokensJson(const Vocabulary& vocabulary) {
  OrderedJson added = OrderedJson::array();
  for (size_t id = 0; id < vocabulary.types.size(); ++id) {
    const bool special = vocabulary.types[id] == kControl || vocabulary.types[id] == kUnknown;
    if (!special && vocabulary.types[id] != kUserDefined) continue;
    added.push_back({{"id", id},
                     {"content", std::string(vocabulary.tokens[id])},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", special}});
  }
  return added;
}

// Vocabulary and merges are serialised by hand: an OrderedJson object of this size takes quadratic
// time.
std::string ModelText(const Vocabulary& vocabulary, std::optional<int64_t> unknown) {
  const bool bytes = vocabulary.rule == nullptr;
  const auto boolean = [](bool value) { return value ? "true" : "false"; };
  std::string text = R"({"type":"BPE","dropout":null,"unk_token":)";
  absl::StrAppend(&text,
                  bytes && unknown.has_value() ? Quoted(vocabulary.tokens[*unknown]) : "null");
  absl::StrAppend(&text,
                  R"(,"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":)",
                  boolean(bytes), R"(,"byte_fallback":)", boolean(bytes));
  absl::StrAppend(&text, R"(,"ignore_merges":)", boolean(!bytes && vocabulary.rule->ignore_merges),
                  R"(,"vocab":{)");
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id)
    absl::StrAppend(&text, id == 0 ? "" : ",", Quoted(vocabulary.tokens[id]), ":", id);
  text += R"(},"merges":[)";
  const char* comma = "";
  for (const auto& [left, right] : vocabulary.merges) {
    absl::StrAppend(&text, comma, "[", Quoted(left), ",", Quoted(right), "]");
    comma = ",";
  }
  return text + "]}";
}

absl::StatusOr<std::string> TokenizerJson(const GgufFile& file, const Vocabulary& vocabulary) {
  ASSIGN_OR_RETURN(const OrderedJson post_processor, PostProcessor(file, vocabulary));
  ASSIGN_OR_RETURN(const std::optional<int64_t> unknown, UnknownId(file, vocabulary));
  const Stages stages = vocabulary.rule == nullptr ? SentencePieceStages(vocabulary.space_prefix)
                                                   : ByteLevelStages(*vocabulary.rule);
  const auto text = [](const OrderedJson& value) {
    return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  };
  return absl::StrCat(R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":)",
                      text(AddedTokensJson(vocabulary)), R"(,"normalizer":)",
                      text(stages.normalizer), R"(,"pre_tokenizer":)", text(stages.pre_tokenizer),
                      R"(,"post_processor":)", text(post_processor), R"(,"decoder":)",
                      text(stages.decoder), R"(,"model":)", ModelText(vocabulary, unknown), "}");
}

// Transformers' tokenizer class: for sentencepiece the one that adds BOS by add_bos_token.
const char* ClassOf(const Vocabulary& vocabulary) {
  if (vocabulary.rule != nullptr) return "PreTrainedTokenizerFast";
  return vocabulary.space_prefix ? "LlamaTokenizerFast" : "GemmaTokenizerFast";
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> TokenizerFilesFromGguf(const GgufFile& file) {
  std::map<std::string, std::string> files;
  if (!file.Has("tokenizer.ggml.model")) return files;
  ASSIGN_OR_RETURN(const absl::string_view model, file.String("tokenizer.ggml.model"));
  if (model == "none" || model == "no_vocab") return files;  // llama.cpp's names for no tokenizer
  ASSIGN_OR_RETURN(const Vocabulary vocabulary, ReadVocabulary(file));
  ASSIGN_OR_RETURN(files["tokenizer.json"], TokenizerJson(file, vocabulary));

  OrderedJson map = OrderedJson::object(), generation = OrderedJson::object();
  constexpr std::pair<const char*, const char*> kKinds[] = {
      {"bos", "bos"}, {"eos", "eos"}, {"pad", "padding"}, {"unk", "unknown"}};
  for (const auto& [name, gguf] : kKinds) {
    const bool is_unknown = std::string_view(name) == "unk";
    ASSIGN_OR_RETURN(const std::optional<int64_t> id,
                     is_unknown ? UnknownId(file, vocabulary) : TokenId(file, vocabulary, gguf));
    if (!id.has_value()) continue;
    map[absl::StrCat(name, "_token")] = std::string(vocabulary.tokens[*id]);
    if (!is_unknown) generation[absl::StrCat(name, "_token_id")] = *id;
  }
  ASSIGN_OR_RETURN(const std::optional<int64_t> end_of_turn, TokenId(file, vocabulary, "eot"));
  if (end_of_turn.has_value() && generation.contains("eos_token_id") &&
      generation["eos_token_id"] != *end_of_turn) {
    generation["eos_token_id"] = OrderedJson::array({generation["eos_token_id"], *end_of_turn});
  }
  OrderedJson config = {{"tokenizer_class", ClassOf(vocabulary)}};
  if (vocabulary.rule == nullptr) {
    ASSIGN_OR_RETURN(config["add_bos_token"],
                     BoolOr(file, "tokenizer.ggml.add_bos_token", BosByDefault(vocabulary)));
    ASSIGN_OR_RETURN(config["add_eos_token"], BoolOr(file, "tokenizer.ggml.add_eos_token", false));
  }
  config.update(map);
  if (file.Has("general.architecture")) {
    ASSIGN_OR_RETURN(const absl::string_view architecture, file.String("general.architecture"));
    const std::string length = absl::StrCat(architecture, ".context_length");
    if (file.Has(length)) {
      ASSIGN_OR_RETURN(config["model_max_length"], file.Int(length));
    }
  }
  config["clean_up_tokenization_spaces"] = false;
  if (file.Has("tokenizer.chat_template")) {
    ASSIGN_OR_RETURN(const absl::string_view chat_template, file.String("tokenizer.chat_template"));
    config["chat_template"] = std::string(chat_template);
  }
  const auto text = [](const OrderedJson& value) {
    return value.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
  };
  files["tokenizer_config.json"] = text(config);
  files["special_tokens_map.json"] = text(map);
  files["generation_config.json"] = text(generation);
  return files;
}

}  // namespace moonring::model
