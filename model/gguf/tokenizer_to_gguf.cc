#include "model/gguf/tokenizer_to_gguf.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/status/status_macros.h"
#include "model/files/json_text.h"
#include "model/gguf/gguf_splitting_rules.h"
#include "model/gguf/pieces_to_gguf.h"
#include "model/gguf/tokenizer_tokens.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

using nlohmann::json;
using Files = std::map<std::string, std::string>;

std::string Key(absl::string_view name) { return absl::StrCat("tokenizer.ggml.", name); }

// Reads the JSON object in a file; an empty object if the folder has no such file.
absl::StatusOr<json> ObjectIn(const Files& files, const char* name) {
  const auto found = files.find(name);
  if (found == files.end()) return json::object();
  return ParseJsonObject(found->second, name);
}

// Refuses older tokenizer formats, which Transformers can convert to tokenizer.json.
absl::Status CheckNoOther(const Files& files) {
  for (const char* name :
       {"tokenizer.model", "spiece.model", "vocab.json", "qwen.tiktoken", "tekken.json"}) {
    if (files.contains(name)) {
      return absl::UnimplementedError(
          absl::StrCat("its tokenizer is ", name,
                       ", without a tokenizer.json: let Transformers open and save "
                       "it once (AutoTokenizer)"));
    }
  }
  return absl::OkStatus();
}

bool IsByteLevel(const json& tokenizer) {
  return !tokenizer["model"].value("byte_fallback", false) &&
         absl::StrContains(tokenizer.value("pre_tokenizer", json()).dump(), "\"ByteLevel\"");
}

absl::Status AddByteLevel(const json& tokenizer, const TokenizerTokens& tokens,
                          GgufMetadata& metadata) {
  ASSIGN_OR_RETURN(const GgufSplittingRule* rule, GgufSplittingRuleOf(tokenizer));
  metadata.String(Key("model"), "gpt2");
  metadata.String(Key("pre"), rule->name);
  std::vector<std::string> merges;
  for (const auto& [left, right] : tokens.merges) {
    if (absl::StrContains(left, ' ') || absl::StrContains(right, ' '))
      return absl::UnimplementedError(
          absl::StrCat("the merge of '", Shown(left), "' and '", Shown(right), "' has a space"));
    merges.push_back(absl::StrCat(left, " ", right));
  }
  metadata.Strings(Key("tokens"), tokens.texts);
  metadata.Strings(Key("merges"), merges);
  return absl::OkStatus();
}

void AddTypes(const TokenizerTokens& tokens, GgufMetadata& metadata) {
  std::vector<int32_t> types;
  for (const GgufTokenType type : tokens.types) types.push_back(static_cast<int32_t>(type));
  metadata.Ints(Key("token_type"), types);
}

// The special tokens that the post-processor adds before or after a text.
std::string AddedBy(const json& tokenizer, bool before) {
  const json processor = tokenizer.value("post_processor", json());
  if (processor.is_null()) return "";
  for (const json& each : processor.value("processors", std::vector<json>{processor})) {
    const json single = each.value("single", json::array());
    if (each.value("type", "") != "TemplateProcessing" || single.size() < 2) continue;
    const json& end = before ? single.front() : single.back();
    return end.value("SpecialToken", json::object()).value("id", "");
  }
  return "";
}

bool BosByClass(const json& config) {
  const std::string name = config.value("tokenizer_class", "");
  return absl::StartsWith(name, "Llama") || absl::StartsWith(name, "CodeLlama") ||
         absl::StartsWith(name, "Gemma");
}

class Ids {
 public:
  Ids(const TokenizerTokens& tokens, const json& config, const json& map)
      : tokens_(tokens), config_(config), map_(map) {}
  // The id of the token that the tokenizer's files name under `key`, or else `otherwise` (the id in
  // config.json).
  std::optional<int64_t> Of(const char* key, std::optional<int64_t> otherwise) const {
    for (const json* file : {&config_, &map_}) {
      const std::string text = NamedToken(*file, key);
      if (!text.empty()) return tokens_.IdOf(text);
    }
    return otherwise;
  }

 private:
  const TokenizerTokens& tokens_;
  const json &config_, &map_;
};

std::optional<int64_t> FirstOf(const std::vector<int64_t>& ids) {
  return ids.empty() ? std::nullopt : std::optional(ids[0]);
}

void AddId(const char* key, std::optional<int64_t> id, GgufMetadata& metadata) {
  if (id.has_value()) metadata.Int(Key(absl::StrCat(key, "_token_id")), *id);
}

// Adds the token ids of config.json, for a folder without a tokenizer.
void AddIdsOfConfig(const ModelConfig& config, GgufMetadata& metadata) {
  AddId("bos", config.bos_token_id, metadata);
  AddId("eos", FirstOf(config.eos_token_ids), metadata);
  AddId("padding", config.pad_token_id, metadata);
}

// The first id other than eos that ends generation; it becomes GGUF's eot.
std::optional<int64_t> EndOfTurn(const json& generation, const ModelConfig& config,
                                 std::optional<int64_t> eos) {
  std::vector<int64_t> ends = config.eos_token_ids;
  const json listed = generation.value("eos_token_id", json());
  for (const json& id : listed.is_array() ? listed : json::array({listed})) {
    if (id.is_number_unsigned()) ends.push_back(id.get<int64_t>());
  }
  for (const int64_t id : ends) {
    if (id != eos && id < config.vocab_size) return id;
  }
  return std::nullopt;
}

struct Parsed {
  json tokenizer, config, map, generation;
};

void AddIds(const Parsed& files, const TokenizerTokens& tokens, const ModelConfig& config,
            GgufMetadata& metadata) {
  const Ids ids(tokens, files.config, files.map);
  const auto bos = ids.Of("bos_token", config.bos_token_id);
  const auto eos = ids.Of("eos_token", FirstOf(config.eos_token_ids));
  AddId("bos", bos, metadata);
  AddId("eos", eos, metadata);
  AddId("eot", EndOfTurn(files.generation, config, eos), metadata);
  AddId("padding", ids.Of("pad_token", config.pad_token_id), metadata);
  AddId("unknown",
        ids.Of("unk_token", tokens.IdOf(NamedToken(files.tokenizer["model"], "unk_token"))),
        metadata);
  const auto text = [&](std::optional<int64_t> id) {
    return id.has_value() ? tokens.texts[*id] : std::string();
  };
  const auto adds = [&](const char* key, std::optional<int64_t> id, bool before) {
    const json said = files.config.value(key, json());
    if (said.is_boolean()) return said.get<bool>();
    const std::string added = AddedBy(files.tokenizer, before);
    if (added.empty() && before) return BosByClass(files.config);
    return !added.empty() && added == text(id);
  };
  metadata.Bool(Key("add_bos_token"), bos.has_value() && adds("add_bos_token", bos, true));
  if (eos.has_value() && adds("add_eos_token", eos, false))
    metadata.Bool(Key("add_eos_token"), true);
}

// Adds the chat template from chat_template.jinja, or the template or named templates of
// tokenizer_config.json.
void AddTemplates(const Files& files, const json& config, GgufMetadata& metadata) {
  constexpr char kKey[] = "tokenizer.chat_template";
  const auto file = files.find("chat_template.jinja");
  if (file != files.end()) return metadata.String(kKey, file->second);
  const json carried = config.value("chat_template", json());
  if (carried.is_string()) return metadata.String(kKey, carried.get<std::string>());
  std::vector<std::string> names;
  for (const json& each : carried.is_array() ? carried : json::array()) {
    const std::string name = each.value("name", ""), text = each.value("template", "");
    if (name != "default") names.push_back(name);
    metadata.String(name == "default" ? kKey : absl::StrCat(kKey, ".", name), text);
  }
  if (!names.empty()) metadata.Strings("tokenizer.chat_templates", names);
}

std::vector<std::string> NotesOf(const TokenizerTokens& tokens) {
  std::vector<std::string> notes;
  const auto some = [](const std::vector<std::string>& texts) {
    return absl::StrCat(texts.size(), " added tokens (", Shown(texts[0], 20),
                        texts.size() > 1 ? ", ..." : "", ")");
  };
  if (!tokens.stripping.empty())
    notes.push_back(absl::StrCat(some(tokens.stripping),
                                 " strip adjacent spaces, or match only whole words "
                                 "(lstrip, rstrip, single_word): a .gguf file cannot store that"));
  return notes;
}

absl::StatusOr<TokenizerMetadata> WithTokenizer(const Files& files, const ModelConfig& config) {
  Parsed parsed;
  ASSIGN_OR_RETURN(parsed.tokenizer, ObjectIn(files, "tokenizer.json"));
  ASSIGN_OR_RETURN(parsed.config, ObjectIn(files, "tokenizer_config.json"));
  ASSIGN_OR_RETURN(parsed.map, ObjectIn(files, "special_tokens_map.json"));
  ASSIGN_OR_RETURN(parsed.generation, ObjectIn(files, "generation_config.json"));
  if (!parsed.tokenizer.value("model", json()).is_object())
    return absl::InvalidArgumentError("tokenizer.json: model: expected an object");
  ASSIGN_OR_RETURN(TokenizerTokens tokens,
                   ReadTokenizerTokens(parsed.tokenizer, parsed.config, config.vocab_size));
  TokenizerMetadata written{.notes = NotesOf(tokens)};
  if (IsByteLevel(parsed.tokenizer)) {
    RETURN_IF_ERROR(AddByteLevel(parsed.tokenizer, tokens, written.metadata));
  } else {
    RETURN_IF_ERROR(AddPieces(parsed.tokenizer, tokens, written.metadata, written.notes));
  }
  AddTypes(tokens, written.metadata);
  AddIds(parsed, tokens, config, written.metadata);
  AddTemplates(files, parsed.config, written.metadata);
  return written;
}

}  // namespace

absl::StatusOr<TokenizerMetadata> TokenizerToGguf(const Files& files, const ModelConfig& config,
                                                  absl::string_view where) {
  TokenizerMetadata none;
  absl::Status status = absl::OkStatus();
  if (files.contains("tokenizer.json")) {
    try {
      auto written = WithTokenizer(files, config);
      if (written.ok()) return written;
      status = written.status();
    } catch (const json::exception& error) {  // a field of another type
      status = absl::InvalidArgumentError(absl::StrCat("its files: ", error.what()));
    }
  } else {
    status = CheckNoOther(files);
  }
  if (!status.ok()) {
    return absl::Status(
        status.code(),
        absl::StrCat(where, ": the tokenizer has no form in GGUF: ", status.message(),
                     "; without the tokenizer's files the weights alone can be written"));
  }
  none.metadata.String(Key("model"), "none");
  AddIdsOfConfig(config, none.metadata);
  none.notes.emplace_back("the model has no tokenizer, so the .gguf file has none");
  return none;
}

}  // namespace moonring::model
