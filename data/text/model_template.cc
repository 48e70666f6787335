#include "data/text/model_template.h"

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"

namespace moonring::data {
namespace {

struct Source {
  std::string text, name;
  bool one_of_several = false;
};

absl::StatusOr<std::optional<Source>> FindSource(const ModelTemplate::Files& files,
                                                 const OrderedJson& config) {
  const auto name = [&](absl::string_view file) { return absl::StrCat(files.where, "/", file); };
  if (!files.chat_template.empty()) return Source{files.chat_template, name("chat_template.jinja")};
  const OrderedJson& carried = FieldOrNull(config, "chat_template");
  const std::string where = name("tokenizer_config.json: chat_template");
  if (carried.is_null()) return std::nullopt;
  if (carried.is_string()) return Source{carried.get<std::string>(), where};
  if (!carried.is_array())
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": must be a text or a list of templates, got ", carried.type_name()));
  for (const OrderedJson& each : carried) {
    const OrderedJson &own = FieldOrNull(each, "name"), &text = FieldOrNull(each, "template");
    if (own == "default" && text.is_string())
      return Source{text.get<std::string>(), where + ": default", true};
  }
  return std::nullopt;
}

// The text of a special token, which is a string or an object with "content".
std::optional<std::string> WordOf(const OrderedJson& token) {
  const OrderedJson& text = token.is_object() ? FieldOrNull(token, "content") : token;
  if (!text.is_string() || text.get_ref<const std::string&>().empty()) return std::nullopt;
  return text.get<std::string>();
}

OrderedJson SpecialWords(const OrderedJson& config, const Tokenizer& tokenizer) {
  const auto known = [&](std::optional<int32_t> id) {
    return id.has_value() ? std::optional(tokenizer.TokenOf(*id)) : std::nullopt;
  };
  const std::pair<const char*, std::optional<std::string>> named[] = {
      {"bos_token", known(tokenizer.bos())},
      {"eos_token", known(tokenizer.eos())},
      {"unk_token", known(tokenizer.unk())},
      {"sep_token", WordOf(FieldOrNull(config, "sep_token"))},
      {"pad_token", known(tokenizer.pad())},
      {"cls_token", WordOf(FieldOrNull(config, "cls_token"))},
      {"mask_token", WordOf(FieldOrNull(config, "mask_token"))}};
  OrderedJson words = OrderedJson::object();
  for (const auto& [name, word] : named) {
    if (word.has_value()) words[name] = *word;
  }
  OrderedJson more = OrderedJson::array();
  const OrderedJson& additional = FieldOrNull(config, "additional_special_tokens");
  if (additional.is_array()) {
    for (const OrderedJson& token : additional) {
      if (const auto word = WordOf(token); word.has_value()) more.push_back(*word);
    }
  }
  if (!more.empty()) words["additional_special_tokens"] = std::move(more);
  return words;
}

// Appends the ids that tokenizer.json's post-processor adds to an empty text.
void AddProcessed(const OrderedJson& processor, const Tokenizer& tokenizer,
                  std::vector<int32_t>& ids) {
  const std::string type = PythonText(FieldOrNull(processor, "type"));
  if (type == "Sequence" && FieldOrNull(processor, "processors").is_array()) {
    for (const OrderedJson& each : FieldOrNull(processor, "processors"))
      AddProcessed(each, tokenizer, ids);
  } else if (type == "TemplateProcessing" && FieldOrNull(processor, "single").is_array()) {
    for (const OrderedJson& piece : FieldOrNull(processor, "single")) {
      const OrderedJson& word = FieldOrNull(FieldOrNull(piece, "SpecialToken"), "id");
      if (!word.is_string()) continue;
      if (const auto id = tokenizer.IdOf(word.get<std::string>()); id.has_value())
        ids.push_back(*id);
    }
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    for (const char* name : {"cls", "sep"}) {  // each is [text, id]
      const OrderedJson& pair = FieldOrNull(processor, name);
      if (pair.is_array() && pair.size() == 2 && pair[1].is_number_integer())
        ids.push_back(pair[1].get<int32_t>());
    }
  }
}

// The text of the special tokens that the tokenizer adds to an empty text. Some tokenizer classes
// replace the file's post-processor by one made from add_bos_token and add_eos_token.
std::string OpeningOf(const OrderedJson& config, const std::string& tokenizer_json,
                      const Tokenizer& tokenizer) {
  const std::string type = PythonText(FieldOrNull(config, "tokenizer_class"));
  std::vector<int32_t> ids;
  bool own = tokenizer_json.empty();
  for (const char* stem : {"Llama", "CodeLlama", "Gemma", "Cohere"})
    own = own || type == absl::StrCat(stem, "Tokenizer") ||
          type == absl::StrCat(stem, "TokenizerFast");
  if (own) {
    if (tokenizer.adds_bos() && tokenizer.bos().has_value()) ids.push_back(*tokenizer.bos());
    if (PythonTruth(FieldOrNull(config, "add_eos_token")) && tokenizer.eos().has_value())
      ids.push_back(*tokenizer.eos());
  } else if (const auto document = ParseOrderedJson(tokenizer_json); document.ok()) {
    AddProcessed(FieldOrNull(*document, "post_processor"), tokenizer, ids);
  }
  return tokenizer.Decode(ids);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ModelTemplate>> ModelTemplate::Find(
    const Files& files, std::shared_ptr<const Tokenizer> tokenizer) {
  OrderedJson config = OrderedJson::object();
  if (!files.tokenizer_config.empty()) {
    ASSIGN_OR_RETURN(config, ParseOrderedJson(files.tokenizer_config), files.where,
                     "/tokenizer_config.json");
  }
  ASSIGN_OR_RETURN(const std::optional<Source> source, FindSource(files, config));
  if (!source.has_value()) return nullptr;
  ASSIGN_OR_RETURN(jinja::Template parsed, jinja::Template::Parse(source->text, source->name));
  std::shared_ptr<ModelTemplate> found(new ModelTemplate(std::move(parsed), std::move(tokenizer)));
  found->words_ = SpecialWords(config, *found->tokenizer_);
  found->opening_ = OpeningOf(config, files.tokenizer, *found->tokenizer_);
  found->one_of_several_ = source->one_of_several;
  return found;
}

absl::StatusOr<std::string> ModelTemplate::Render(OrderedJson messages, bool add_generation_prompt,
                                                  const OrderedJson& more) const {
  OrderedJson context = words_;
  context["messages"] = std::move(messages);
  context["tools"] = nullptr;
  context["documents"] = nullptr;
  context["add_generation_prompt"] = add_generation_prompt;
  context.update(more);
  return template_.Render(context);
}

absl::StatusOr<std::vector<int32_t>> ModelTemplate::Encode(OrderedJson messages,
                                                           bool add_generation_prompt,
                                                           const OrderedJson& more) const {
  ASSIGN_OR_RETURN(const std::string text,
                   Render(std::move(messages), add_generation_prompt, more));
  return tokenizer_->Encode(text);
}

}  // namespace moonring::data
