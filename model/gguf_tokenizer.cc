#include "model/gguf_tokenizer.h"

#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "comm/status_macros.h"
#include "model/json_text.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kControl = 3, kUserDefined = 4;  // tokenizer.ggml.token_type

// How a text is cut before merging. `regex` is empty for ByteLevel's own rule (GPT-2's).
struct SplittingRule {
  const char* name;
  const char* regex;
  bool single_digits, nfc, ignore_merges, bos_by_default;
};
constexpr const char* kLlama3Regex = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Regex = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr SplittingRule kRules[] = {
    {"smollm", "", true, false, false, false},         {"gpt-2", "", false, false, false, false},
    {"default", "", false, false, false, false},       {"llama-bpe", kLlama3Regex, false, false, true, true},
    {"qwen2", kQwen2Regex, false, true, false, false},
};

struct Vocabulary {
  std::vector<absl::string_view> tokens, merges;
  std::vector<int64_t> types;  // empty where the file gives none
  const SplittingRule* rule = nullptr;
};

absl::Status Lying(const GgufFile& file, const std::string& key, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(file.path(), ": tokenizer.ggml.", key, ": ", what));
}

absl::StatusOr<const SplittingRule*> FindRule(const GgufFile& file) {
  absl::string_view name = "default";
  if (file.Has("tokenizer.ggml.pre")) {
    ASSIGN_OR_RETURN(name, file.String("tokenizer.ggml.pre"));
  }
  std::string known;
  for (const SplittingRule& rule : kRules) {
    if (name == rule.name) return &rule;
    absl::StrAppend(&known, known.empty() ? "" : ", ", rule.name);
  }
  return absl::UnimplementedError(absl::StrCat(file.path(), ": tokenizer.ggml.pre: '", Shown(name), "' is not supported yet; supported: ", known));
}

absl::Status CheckMerges(const GgufFile& file, const Vocabulary& vocabulary) {
  const absl::flat_hash_set<absl::string_view> known(vocabulary.tokens.begin(), vocabulary.tokens.end());
  if (known.size() != vocabulary.tokens.size()) return Lying(file, "tokens", "two tokens have the same text");
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) {
    const absl::string_view merge = vocabulary.merges[i];
    const size_t blank = merge.find(' ');
    const bool pair = blank != absl::string_view::npos && merge.find(' ', blank + 1) == absl::string_view::npos;
    if (!pair || !known.contains(merge.substr(0, blank)) || !known.contains(merge.substr(blank + 1)) ||
        !known.contains(absl::StrCat(merge.substr(0, blank), merge.substr(blank + 1)))) {
      return Lying(file, "merges", absl::StrCat("number ", i, ", '", Shown(merge), "', does not join two tokens to a third"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Vocabulary> ReadVocabulary(const GgufFile& file) {
  Vocabulary vocabulary;
  ASSIGN_OR_RETURN(const absl::string_view model, file.String("tokenizer.ggml.model"));
  if (model != "gpt2")
    return absl::UnimplementedError(
        absl::StrCat(file.path(), ": tokenizer.ggml.model: '", Shown(model), "' is not supported yet; supported: gpt2 (byte-level BPE)"));
  ASSIGN_OR_RETURN(vocabulary.rule, FindRule(file));
  ASSIGN_OR_RETURN(vocabulary.tokens, file.Strings("tokenizer.ggml.tokens"));
  ASSIGN_OR_RETURN(vocabulary.merges, file.Strings("tokenizer.ggml.merges"));
  if (file.Has("tokenizer.ggml.token_type")) {
    ASSIGN_OR_RETURN(vocabulary.types, file.Ints("tokenizer.ggml.token_type"));
    if (vocabulary.types.size() != vocabulary.tokens.size()) {
      return Lying(file, "token_type", absl::StrCat(vocabulary.types.size(), " types for ", vocabulary.tokens.size(), " tokens"));
    }
  }
  RETURN_IF_ERROR(CheckMerges(file, vocabulary));
  return vocabulary;
}

// A JSON string. Bytes that are not UTF-8, which no byte-level vocabulary has, become U+FFFD.
std::string Quoted(absl::string_view text) { return nlohmann::json(std::string(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }

// The text of a special token by its metadata key ("bos" for tokenizer.ggml.bos_token_id); nothing where there is none.
absl::StatusOr<std::optional<int64_t>> TokenId(const GgufFile& file, const Vocabulary& vocabulary, absl::string_view kind) {
  const std::string key = absl::StrCat("tokenizer.ggml.", kind, "_token_id");
  if (!file.Has(key)) return std::nullopt;
  ASSIGN_OR_RETURN(const int64_t id, file.Int(key));
  if (id < 0 || id >= static_cast<int64_t>(vocabulary.tokens.size()))
    return Lying(file, absl::StrCat(kind, "_token_id"), absl::StrCat(id, " is not one of the ", vocabulary.tokens.size(), " tokens"));
  return id;
}

ordered_json PreTokenizer(const SplittingRule& rule) {
  const bool own_rule = *rule.regex == '\0';
  const ordered_json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", own_rule}};
  if (own_rule && !rule.single_digits) return byte_level;
  const ordered_json first = own_rule ? ordered_json{{"type", "Digits"}, {"individual_digits", true}}
                                      : ordered_json{{"type", "Split"}, {"pattern", {{"Regex", rule.regex}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", ordered_json::array({first, byte_level})}};
}

// What puts BOS in front of a text whose special tokens are asked for.
absl::StatusOr<ordered_json> PostProcessor(const GgufFile& file, const Vocabulary& vocabulary) {
  bool add_bos = vocabulary.rule->bos_by_default;
  if (file.Has("tokenizer.ggml.add_bos_token")) {
    ASSIGN_OR_RETURN(add_bos, file.Bool("tokenizer.ggml.add_bos_token"));
  }
  ASSIGN_OR_RETURN(const std::optional<int64_t> id, TokenId(file, vocabulary, "bos"));
  if (!add_bos || !id.has_value()) return ordered_json(nullptr);
  const std::string bos(vocabulary.tokens[*id]);
  const auto special = [&bos](int type) { return ordered_json{{"SpecialToken", {{"id", bos}, {"type_id", type}}}}; };
  const auto sequence = [](const char* name, int type) { return ordered_json{{"Sequence", {{"id", name}, {"type_id", type}}}}; };
  ordered_json special_tokens = ordered_json::object();
  special_tokens[bos] = {{"id", bos}, {"ids", ordered_json::array({*id})}, {"tokens", ordered_json::array({bos})}};
  return ordered_json{{"type", "TemplateProcessing"},
                      {"single", ordered_json::array({special(0), sequence("A", 0)})},
                      {"pair", ordered_json::array({special(0), sequence("A", 0), special(1), sequence("B", 1)})},
                      {"special_tokens", special_tokens}};
}

ordered_json AddedTokens(const Vocabulary& vocabulary) {
  ordered_json added = ordered_json::array();
  for (size_t id = 0; id < vocabulary.types.size(); ++id) {
    if (vocabulary.types[id] != kControl && vocabulary.types[id] != kUserDefined) continue;
    added.push_back({{"id", id},
                     {"content", std::string(vocabulary.tokens[id])},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", vocabulary.types[id] == kControl}});
  }
  return added;
}

// Vocabulary and merges are written by hand: an ordered_json object of this size takes quadratic time.
std::string ModelText(const Vocabulary& vocabulary) {
  std::string text =
      R"({"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,)";
  absl::StrAppend(&text, R"("ignore_merges":)", vocabulary.rule->ignore_merges ? "true" : "false", R"(,"vocab":{)");
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) absl::StrAppend(&text, id == 0 ? "" : ",", Quoted(vocabulary.tokens[id]), ":", id);
  text += R"(},"merges":[)";
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) {
    const absl::string_view merge = vocabulary.merges[i];
    const size_t blank = merge.find(' ');
    absl::StrAppend(&text, i == 0 ? "" : ",", "[", Quoted(merge.substr(0, blank)), ",", Quoted(merge.substr(blank + 1)), "]");
  }
  return text + "]}";
}

absl::StatusOr<std::string> TokenizerJson(const GgufFile& file, const Vocabulary& vocabulary) {
  ASSIGN_OR_RETURN(const ordered_json post_processor, PostProcessor(file, vocabulary));
  const ordered_json decoder = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  const ordered_json normalizer = vocabulary.rule->nfc ? ordered_json{{"type", "NFC"}} : ordered_json(nullptr);
  const auto text = [](const ordered_json& value) { return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace); };
  return absl::StrCat(R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":)", text(AddedTokens(vocabulary)), R"(,"normalizer":)",
                      text(normalizer), R"(,"pre_tokenizer":)", text(PreTokenizer(*vocabulary.rule)), R"(,"post_processor":)", text(post_processor),
                      R"(,"decoder":)", text(decoder), R"(,"model":)", ModelText(vocabulary), "}");
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> TokenizerFilesFromGguf(const GgufFile& file) {
  std::map<std::string, std::string> files;
  if (!file.Has("tokenizer.ggml.model")) return files;
  ASSIGN_OR_RETURN(const Vocabulary vocabulary, ReadVocabulary(file));
  ASSIGN_OR_RETURN(files["tokenizer.json"], TokenizerJson(file, vocabulary));

  ordered_json map = ordered_json::object(), generation = ordered_json::object();
  constexpr std::pair<const char*, const char*> kKinds[] = {{"bos", "bos"}, {"eos", "eos"}, {"pad", "padding"}, {"unk", "unknown"}};
  for (const auto& [name, gguf] : kKinds) {
    ASSIGN_OR_RETURN(const std::optional<int64_t> id, TokenId(file, vocabulary, gguf));
    if (!id.has_value()) continue;
    map[absl::StrCat(name, "_token")] = std::string(vocabulary.tokens[*id]);
    if (std::string_view(name) != "unk") generation[absl::StrCat(name, "_token_id")] = *id;
  }
  ASSIGN_OR_RETURN(const std::optional<int64_t> end_of_turn, TokenId(file, vocabulary, "eot"));
  if (end_of_turn.has_value() && generation.contains("eos_token_id") && generation["eos_token_id"] != *end_of_turn) {
    generation["eos_token_id"] = ordered_json::array({generation["eos_token_id"], *end_of_turn});
  }
  ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  config.update(map);
  if (file.Has("llama.context_length")) {
    ASSIGN_OR_RETURN(config["model_max_length"], file.Int("llama.context_length"));
  }
  config["clean_up_tokenization_spaces"] = false;
  if (file.Has("tokenizer.chat_template")) {
    ASSIGN_OR_RETURN(const absl::string_view chat_template, file.String("tokenizer.chat_template"));
    config["chat_template"] = std::string(chat_template);
  }
  const auto text = [](const ordered_json& value) { return value.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n"; };
  files["tokenizer_config.json"] = text(config);
  files["special_tokens_map.json"] = text(map);
  files["generation_config.json"] = text(generation);
  return files;
}

}  // namespace moonring::model
