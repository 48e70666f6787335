#include "data/text/tokenizer_files.h"

#include <cstdint>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "base/text/ordered_json.h"
#include "data/text/json/json_fields.h"
#include "data/text/json/json_splice.h"

namespace moonring::data {
namespace {

using base::OrderedJson;
using nlohmann::json;

constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kSpecial = "special_tokens_map.json";
constexpr const char* kAdded = "added_tokens.json";
constexpr const char* kDecoder = "added_tokens_decoder";
constexpr const char* kMoreSpecial = "additional_special_tokens";
constexpr const char* kSplit = "split_special_tokens";

const std::string& Contents(const TokenizerFiles& files, const char* name) {
  static const std::string& none = *new std::string;
  const auto found = files.find(name);
  return found == files.end() ? none : found->second;
}

// Parses a file as an object, with its key order; an empty object if the file is missing.
absl::StatusOr<OrderedJson> Object(const TokenizerFiles& files, const char* name,
                                   absl::string_view folder) {
  const std::string& text = Contents(files, name);
  if (text.empty()) return OrderedJson::object();
  const std::string where = absl::StrCat(folder, "/", name);
  ASSIGN_OR_RETURN(const json parsed, ParseJson(text, where));
  if (!parsed.is_object()) return WrongType(parsed, "an object", where);
  return OrderedJson::parse(text);
}

std::string TextOf(const OrderedJson& value) {
  return value.dump(2, ' ', /*ensure_ascii=*/false) + "\n";
}

// The text of a token, which is a string or an object with "content". "" for anything else, for
// which the tokenizer reports an error.
std::string ContentOf(const OrderedJson& token) {
  const OrderedJson text = token.is_object() ? token.value("content", OrderedJson()) : token;
  return text.is_string() ? text.get<std::string>() : "";
}

OrderedJson DecoderEntry(const AddedToken& token) {
  return {{"content", token.content},         {"lstrip", token.lstrip},
          {"normalized", token.normalized},   {"rstrip", token.rstrip},
          {"single_word", token.single_word}, {"special", token.special}};
}

OrderedJson ListEntry(int64_t id, const AddedToken& token) {
  return {{"id", id},
          {"content", token.content},
          {"single_word", token.single_word},
          {"lstrip", token.lstrip},
          {"rstrip", token.rstrip},
          {"normalized", token.normalized},
          {"special", token.special}};
}

// Merges the files that older Transformers versions wrote next to tokenizer_config.json into
// `config`.
absl::Status AddOlderFiles(const TokenizerFiles& files, absl::string_view folder,
                           OrderedJson& config) {
  ASSIGN_OR_RETURN(const OrderedJson special, Object(files, kSpecial, folder));
  for (const auto& [key, value] : special.items()) {
    if (key != kMoreSpecial || !value.is_array()) {
      config[key] = value;
      continue;
    }
    OrderedJson& all = config[key];
    if (!all.is_array()) all = OrderedJson::array();
    for (const OrderedJson& token : value) {
      if (!absl::c_linear_search(all, token)) all.push_back(token);
    }
  }
  ASSIGN_OR_RETURN(const OrderedJson added, Object(files, kAdded, folder));
  if (added.empty()) return absl::OkStatus();
  std::vector<std::string> names;
  for (const char* key : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                          "cls_token", "mask_token"}) {
    if (config.contains(key)) names.push_back(ContentOf(config[key]));
  }
  if (config.contains(kMoreSpecial)) {
    for (const OrderedJson& token : config[kMoreSpecial]) names.push_back(ContentOf(token));
  }
  for (const auto& [token, id] : added.items()) {
    if (!id.is_number_integer())
      return WrongType(json(id), "an integer",
                       absl::StrCat(folder, "/", kAdded, ": \"", token, "\""));
    const bool named = absl::c_linear_search(names, token);
    config[kDecoder][absl::StrCat(id.get<int64_t>())] =
        DecoderEntry({.content = token, .normalized = !named, .special = named});
  }
  return absl::OkStatus();
}

absl::StatusOr<OrderedJson> WholeConfig(const TokenizerFiles& files, absl::string_view folder) {
  ASSIGN_OR_RETURN(OrderedJson config, Object(files, kConfig, folder));
  if (!config.contains(kDecoder)) RETURN_IF_ERROR(AddOlderFiles(files, folder, config));
  return config;
}

absl::Status CheckGpt2Class(const OrderedJson& config, absl::string_view folder) {
  const std::string known =
      config.contains("tokenizer_class") ? ContentOf(config["tokenizer_class"]) : "";
  if (known.empty() || known == "GPT2Tokenizer" || known == "GPT2TokenizerFast")
    return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(folder, "/vocab.json: ", known,
                   " cuts texts otherwise than GPT-2; it needs a tokenizer.json"));
}

// The entries of added_tokens_decoder, by id.
std::map<int64_t, OrderedJson> ById(const OrderedJson& config) {
  std::map<int64_t, OrderedJson> entries;
  if (!config.contains(kDecoder)) return entries;
  for (const auto& [key, value] : config[kDecoder].items()) {
    int64_t id = 0;
    if (absl::SimpleAtoi(key, &id)) entries[id] = value;
  }
  return entries;
}

// Sets the special tokens whose names differ from the files, in tokenizer_config.json or
// special_tokens_map.json.
void SetNames(const Tokenizer& tokenizer, OrderedJson& file) {
  if (tokenizer.additions().eos) file["eos_token"] = tokenizer.TokenOf(*tokenizer.eos());
  const bool has_pad = file.contains("pad_token") && !file["pad_token"].is_null();
  if (!has_pad && tokenizer.pad().has_value())
    file["pad_token"] = tokenizer.TokenOf(*tokenizer.pad());
  for (const std::string& word : tokenizer.additions().stop_words) {
    OrderedJson& all = file[kMoreSpecial];
    if (!all.is_array()) all = OrderedJson::array();
    all.push_back(word);
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Tokenizer>> OpenTokenizer(const TokenizerFiles& files,
                                                               absl::string_view folder,
                                                               const TokenizerOptions& options) {
  ASSIGN_OR_RETURN(const OrderedJson whole, WholeConfig(files, folder));
  const std::string config = whole.empty() ? "" : whole.dump();
  for (const char* name :
       {kTokenizer, "tokenizer.model", "spiece.model", "qwen.tiktoken", "tekken.json"}) {
    if (!files.contains(name)) continue;
    const std::string where = absl::StrCat(folder, "/", name);
    if (name == kTokenizer)
      return Tokenizer::FromJson(Contents(files, name), config, where, options);
    return Tokenizer::FromModelFile(Contents(files, name), config, where, options);
  }
  if (files.contains("vocab.json") && files.contains("merges.txt")) {
    RETURN_IF_ERROR(CheckGpt2Class(whole, folder));
    return Tokenizer::FromVocabAndMerges(Contents(files, "vocab.json"),
                                         Contents(files, "merges.txt"), config,
                                         absl::StrCat(folder, "/vocab.json"), options);
  }
  return absl::NotFoundError(absl::StrCat(folder,
                                          ": no tokenizer.json, tokenizer.model, or vocab.json "
                                          "with merges.txt; tokenizing needs the model's ",
                                          "tokenizer: put its files next to config.json"));
}

absl::StatusOr<TokenizerFiles> ChangedFiles(const TokenizerFiles& files,
                                            const Tokenizer& tokenizer) {
  TokenizerFiles changed;
  ASSIGN_OR_RETURN(OrderedJson config, WholeConfig(files, "tokenizer"));
  const TokenizerAdditions& additions = tokenizer.additions();
  const bool splits = config.contains(kSplit) && config[kSplit] == true;
  if (!additions.any() && splits == tokenizer.splits_special()) return changed;
  const auto& tokens = tokenizer.added_tokens().by_id();

  std::map<int64_t, OrderedJson> decoder = ById(config);
  if (files.contains(kTokenizer)) {
    OrderedJson list = OrderedJson::array();
    for (const auto& [id, token] : tokens) {
      list.push_back(ListEntry(id, token));
      decoder[id] = DecoderEntry(token);
    }
    if (!additions.ids.empty())
      changed[kTokenizer] = WithField(Contents(files, kTokenizer), "added_tokens",
                                      list.dump(2, ' ', /*ensure_ascii=*/false));
  }
  for (const int32_t id : additions.ids) decoder[id] = DecoderEntry(tokens.at(id));
  OrderedJson entries = OrderedJson::object();
  for (auto& [id, entry] : decoder) entries[absl::StrCat(id)] = std::move(entry);
  config[kDecoder] = std::move(entries);
  SetNames(tokenizer, config);
  if (splits != tokenizer.splits_special()) config[kSplit] = tokenizer.splits_special();
  changed[kConfig] = TextOf(config);

  if (files.contains(kSpecial)) {
    ASSIGN_OR_RETURN(OrderedJson special, Object(files, kSpecial, "tokenizer"));
    SetNames(tokenizer, special);
    changed[kSpecial] = TextOf(special);
  }
  if (files.contains(kAdded)) {
    ASSIGN_OR_RETURN(OrderedJson added, Object(files, kAdded, "tokenizer"));
    for (const int32_t id : additions.ids) added[tokens.at(id).content] = id;
    changed[kAdded] = TextOf(added);
  }
  return changed;
}

}  // namespace moonring::data
