#include "model/gguf/tokenizer_tokens.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status/status_macros.h"
#include "model/files/json_text.h"

namespace moonring::model {
namespace {

using nlohmann::json;

struct AddedToken {
  std::string text;
  bool special = false, strips = false, normalized = false;
};

absl::Status Wrong(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("tokenizer.json: ", what));
}

// Whether a field is missing, null, "" or 0.
bool Lacks(const json& object, const char* key) {
  const json value = object.value(key, json());
  return value.is_null() || value == "" || value == 0.0;
}

std::string TextOf(const json& token) {
  if (token.is_string()) return token.get<std::string>();
  return token.is_object() ? token.value("content", "") : "";
}

AddedToken AddedFrom(const json& token, bool special) {
  const auto is = [&](const char* key) { return token.value(key, false); };
  return {TextOf(token), special, is("lstrip") || is("rstrip") || is("single_word"),
          is("normalized")};
}

// The texts of special tokens named in tokenizer_config.json.
std::set<std::string> NamedSpecial(const json& config) {
  std::set<std::string> named;
  for (const char* key :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"})
    named.insert(NamedToken(config, key));
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    const json more = config.value(key, json());
    for (const json& token : more) named.insert(TextOf(token));
  }
  named.erase("");
  return named;
}

absl::StatusOr<std::map<int64_t, AddedToken>> AddedTokens(const json& tokenizer,
                                                          const json& config) {
  std::map<int64_t, AddedToken> added;
  for (const json& token : tokenizer.value("added_tokens", json::array())) {
    const json id = token.value("id", json());
    if (!id.is_number_unsigned()) return Wrong("a token of added_tokens has no id");
    added[id.get<int64_t>()] = AddedFrom(token, token.value("special", false));
  }
  const json listed = config.value("added_tokens_decoder", json::object());
  for (const auto& [key, token] : listed.items()) {
    int64_t id = 0;
    if (!absl::SimpleAtoi(key, &id) || id < 0)
      return absl::InvalidArgumentError(absl::StrCat(
          "tokenizer_config.json: added_tokens_decoder: '", Shown(key), "' is not an id"));
    const bool special = added[id].special || token.value("special", false);
    added[id] = AddedFrom(token, special);
  }
  return added;
}

absl::Status CheckModel(const json& model) {
  const std::string type = model.value("type", "BPE");
  if (type != "BPE")
    return absl::UnimplementedError(
        absl::StrCat("its model is of type ", Shown(type), "; BPE alone has a form in GGUF"));
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix", "dropout"}) {
    if (!Lacks(model, key)) return absl::UnimplementedError(absl::StrCat("its model has a ", key));
  }
  if (!model.contains("vocab") || !model["vocab"].is_object())
    return Wrong("model.vocab: expected an object");
  return absl::OkStatus();
}

absl::Status ReadMergesOfModel(const json& model, TokenizerTokens& tokens) {
  const json& merges = model.contains("merges") ? model["merges"] : json::array();
  for (const json& merge : merges) {
    std::vector<std::string> parts;
    if (merge.is_string()) parts = absl::StrSplit(merge.get_ref<const std::string&>(), ' ');
    if (merge.is_array()) parts = merge.get<std::vector<std::string>>();
    if (parts.size() != 2)
      return Wrong(absl::StrCat("model.merges: ", ShownJson(merge), " does not join two tokens"));
    tokens.merges.emplace_back(std::move(parts[0]), std::move(parts[1]));
  }
  return absl::OkStatus();
}

absl::Status PutToken(TokenizerTokens& tokens, int64_t id, const std::string& text,
                      GgufTokenType type) {
  const auto rows = static_cast<int64_t>(tokens.texts.size());
  if (id < 0 || id >= rows)
    return Wrong(absl::StrCat("the token '", Shown(text), "' has id ", id, ", and the embedding ",
                              rows, " rows"));
  tokens.texts[id] = text;
  tokens.types[id] = type;
  return absl::OkStatus();
}

void FillUnused(TokenizerTokens& tokens) {
  const absl::flat_hash_set<std::string> known(tokens.texts.begin(), tokens.texts.end());
  for (size_t id = 0; id < tokens.texts.size(); ++id) {
    if (tokens.types[id] != GgufTokenType::kUnused) continue;
    tokens.texts[id] = absl::StrCat("[PAD", id, "]");
    while (known.contains(tokens.texts[id])) tokens.texts[id] += "_";
  }
}

}  // namespace

std::optional<int64_t> TokenizerTokens::IdOf(absl::string_view text) const {
  const auto found = std::find(texts.begin(), texts.end(), text);
  if (text.empty() || found == texts.end()) return std::nullopt;
  return found - texts.begin();
}

std::string NamedToken(const json& config, const char* key) {
  return TextOf(config.value(key, json()));
}

absl::StatusOr<TokenizerTokens> ReadTokenizerTokens(const json& tokenizer, const json& config,
                                                    int64_t rows) {
  const json& model = tokenizer["model"];
  RETURN_IF_ERROR(CheckModel(model));
  TokenizerTokens tokens;
  tokens.texts.resize(rows);
  tokens.types.resize(rows, GgufTokenType::kUnused);
  for (const auto& [text, id] : model["vocab"].items()) {
    if (!id.is_number_integer()) return Wrong(absl::StrCat("model.vocab: ", ShownJson(id)));
    RETURN_IF_ERROR(PutToken(tokens, id.get<int64_t>(), text, GgufTokenType::kNormal));
  }
  RETURN_IF_ERROR(ReadMergesOfModel(model, tokens));
  const std::set<std::string> named = NamedSpecial(config);
  ASSIGN_OR_RETURN(const auto added, AddedTokens(tokenizer, config));
  for (const auto& [id, token] : added) {
    const bool special = token.special || named.contains(token.text);
    RETURN_IF_ERROR(PutToken(tokens, id, token.text,
                             special ? GgufTokenType::kControl : GgufTokenType::kUserDefined));
    if (token.strips) tokens.stripping.push_back(token.text);
    if (token.normalized) tokens.normalized.push_back(token.text);
  }
  for (const std::string& text : named) {  // a token that is only in the vocabulary
    const std::optional<int64_t> id = tokens.IdOf(text);
    if (id.has_value()) tokens.types[*id] = GgufTokenType::kControl;
  }
  FillUnused(tokens);
  return tokens;
}

}  // namespace moonring::model
