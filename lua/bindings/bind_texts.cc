// Lua bindings for tokenizers and chat templates.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status/torch_status.h"
#include "data/text/chat_prompt.h"
#include "data/text/chat_template.h"
#include "data/text/model_template.h"
#include "data/text/parsed_template.h"
#include "data/text/template_spec.h"
#include "data/text/tokenizer.h"
#include "data/text/tokenizer_files.h"
#include "data/text/turns.h"
#include "data/text/whole_characters.h"
#include "lua/binding/class.h"
#include "lua/binding/options.h"
#include "lua/bindings/bindings.h"
#include "lua/bindings/dataset.h"

namespace moonring::lua {
namespace {

std::shared_ptr<const data::Tokenizer> MakeTokenizer(data::TokenizerFiles files, std::string folder,
                                                     Options options) {
  data::TokenizerOptions wanted;
  wanted.add_tokens = options.Get<std::vector<std::string>>("add_tokens", {});
  wanted.add_special_tokens = options.Get<std::vector<std::string>>("add_special_tokens", {});
  wanted.split_special_tokens = options.Get<bool>("split_special_tokens", false);
  options.Finish();
  return base::ValueOrThrow(data::OpenTokenizer(files, folder, wanted));
}

data::TokenizerFiles ChangedFiles(data::TokenizerFiles files, data::Tokenizer& tokenizer) {
  return base::ValueOrThrow(data::ChangedFiles(files, tokenizer));
}

std::shared_ptr<data::ChatTemplate> MakeTemplate(data::TemplateSpec spec,
                                                 std::shared_ptr<data::Tokenizer> tokenizer,
                                                 std::optional<std::string> system) {
  return std::make_shared<data::ChatTemplate>(base::ValueOrThrow(
      data::ChatTemplate::Create(std::move(spec), std::move(tokenizer), std::move(system))));
}

std::vector<int32_t> EncodePrompt(data::ChatTemplate& chat_template, std::vector<std::string> texts,
                                  std::optional<std::string> system) {
  return base::ValueOrThrow(
      chat_template.EncodePrompt(base::ValueOrThrow(data::ConversationOf(texts, system))));
}

std::vector<int32_t> EncodeNext(data::ChatTemplate& chat_template, std::string role,
                                std::string text, int64_t last) {
  const bool is_tool = role == "tool" || role == "observation";
  TORCH_CHECK_VALUE(is_tool || role == "user", "role: expected tool or user, got '", role, "'");
  return base::ValueOrThrow(chat_template.EncodeNext(
      {is_tool ? data::Role::kObservation : data::Role::kUser, std::move(text)},
      static_cast<int32_t>(last)));
}

// `files`: contents by file name; `where`: the model's folder, named in error messages.
std::shared_ptr<data::ModelTemplate> FindModelTemplate(std::map<std::string, std::string> files,
                                                       std::shared_ptr<data::Tokenizer> tokenizer,
                                                       std::string where) {
  return std::const_pointer_cast<data::ModelTemplate>(base::ValueOrThrow(
      data::ModelTemplate::Find({files["chat_template.jinja"], files["tokenizer_config.json"],
                                 files["tokenizer.json"], std::move(where)},
                                std::move(tokenizer))));
}

std::vector<int32_t> EncodeWithModelTemplate(data::ModelTemplate& carried,
                                             std::vector<std::string> texts,
                                             std::optional<std::string> system,
                                             std::optional<bool> enable_thinking) {
  data::OrderedJson more = data::OrderedJson::object();
  if (enable_thinking.has_value()) more["enable_thinking"] = *enable_thinking;
  return base::ValueOrThrow(
      carried.Encode(base::ValueOrThrow(data::MessagesOf(texts, system)), true, more));
}

// Returns the fields of a template table, derived from the model's Jinja template, all as strings.
std::map<std::string, std::string> ParseModelTemplate(data::ModelTemplate& carried) {
  const data::TemplateSpec spec = base::ValueOrThrow(data::ParseTemplate(carried));
  const auto text = [](const std::vector<data::Slot>& slots) {
    return slots.empty() ? std::string() : slots.front().text;
  };
  return {{"name", spec.name},
          {"class", spec.kind == data::TemplateSpec::Kind::kReasoning ? "reasoning" : "plain"},
          {"prefix", text(spec.prefix)},
          {"system", text(spec.system)},
          {"user", text(spec.user)},
          {"assistant", text(spec.assistant)},
          {"default_system", spec.default_system}};
}

// Returns how the template renders reasoning text: the fields of a template table about it; {} if
// it does not render it.
std::vector<std::string> ThoughtsOfModelTemplate(data::ModelTemplate& carried) {
  const data::TemplateSpec spec = base::ValueOrThrow(data::ParseTemplate(carried));
  if (!spec.writes_thoughts) return {};
  const char* trim = spec.thought_trim == data::TemplateSpec::Trim::kNothing    ? "nothing"
                     : spec.thought_trim == data::TemplateSpec::Trim::kNewlines ? "newlines"
                                                                                : "spaces";
  return {spec.written_begin, spec.written_end, trim};
}

data::OrderedJson ParseRequest(const std::string& request) {
  return base::ValueOrThrow(data::ParseOrderedJson(request));
}

std::vector<int32_t> EncodeChatWithModelTemplate(data::ModelTemplate& carried, std::string request,
                                                 std::optional<std::string> system,
                                                 std::optional<bool> enable_thinking) {
  return base::ValueOrThrow(data::EncodeChat(carried, ParseRequest(request),
                                             {system.value_or(""), enable_thinking}));
}

std::tuple<std::string, std::string> WholeCharacters(std::string bytes) {
  data::WholeCharacters split = data::SplitWholeCharacters(bytes);
  return {std::move(split.text), std::move(split.rest)};
}

}  // namespace

void AddTexts(lua_State* L) {
  Class<data::Tokenizer>::Register(
      L, "Tokenizer",
      {
          {"encode", Bind<[](data::Tokenizer& tokenizer, std::string text) {
             return tokenizer.Encode(text);
           }>},
          {"decode", Bind<[](data::Tokenizer& tokenizer, std::vector<int32_t> ids,
                             std::optional<bool> skip_special) {
             return tokenizer.Decode(ids, skip_special.value_or(false));
           }>},
          {"token_bytes", Bind<[](data::Tokenizer& tokenizer, int32_t id) {
             return std::make_tuple(tokenizer.BytesOf(id), tokenizer.IsSpecial(id));
           }>},
          {"leading_bos", Bind<[](data::Tokenizer& tokenizer) {
             return tokenizer.adds_bos() ? tokenizer.bos() : std::nullopt;
           }>},
          {"vocab_size", Bind<[](data::Tokenizer& tokenizer) { return tokenizer.vocab_size(); }>},
          {"end_id", Bind<[](data::Tokenizer& tokenizer) { return tokenizer.end_id(); }>},
          {"bos", Bind<[](data::Tokenizer& tokenizer) { return tokenizer.bos(); }>},
          {"eos", Bind<[](data::Tokenizer& tokenizer) { return tokenizer.eos(); }>},
          {"token_of",
           Bind<[](data::Tokenizer& tokenizer, int32_t id) { return tokenizer.TokenOf(id); }>},
          {"more_special_ids",
           Bind<[](data::Tokenizer& tokenizer) { return tokenizer.more_special_ids(); }>},
          {"added_ids", Bind<[](data::Tokenizer& tokenizer) { return tokenizer.additions().ids; }>},
          {"new_eos", Bind<[](data::Tokenizer& tokenizer) {
             return tokenizer.additions().eos ? tokenizer.eos() : std::nullopt;
           }>},
          {"__tostring", Bind<[](data::Tokenizer& tokenizer) {
             return absl::StrCat("Tokenizer of ", tokenizer.vocab_size(), " ids");
           }>},
      });
  Class<data::ChatTemplate>::Register(
      L, "Template",
      {
          {"encode_prompt", Bind<&EncodePrompt>},
          {"encode_chat", Bind<[](data::ChatTemplate& named, std::string request) {
             return base::ValueOrThrow(data::EncodeChat(named, ParseRequest(request)));
           }>},
          {"encode_next", Bind<&EncodeNext>},
          {"stop_ids",
           Bind<[](data::ChatTemplate& chat_template) { return chat_template.stop_ids(); }>},
          {"tokenizer", Bind<[](data::ChatTemplate& chat_template) {
             return chat_template.shared_tokenizer();
           }>},
          {"eos", Bind<[](data::ChatTemplate& chat_template) { return chat_template.eos(); }>},
          {"__tostring", Bind<[](data::ChatTemplate& chat_template) {
             return absl::StrCat("Template ", chat_template.spec().name);
           }>},
      });
  Class<data::ModelTemplate>::Register(
      L, "ModelTemplate",
      {
          {"encode_prompt", Bind<&EncodeWithModelTemplate>},
          {"encode_chat", Bind<&EncodeChatWithModelTemplate>},
          {"fields", Bind<&ParseModelTemplate>},
          {"thoughts", Bind<&ThoughtsOfModelTemplate>},
          {"is_one_of_several",
           Bind<[](data::ModelTemplate& carried) { return carried.is_one_of_several(); }>},
          {"__tostring", Bind<[](data::ModelTemplate&) { return std::string("ModelTemplate"); }>},
      });
  AddToModule(L, "moonring.data",
              {
                  {"tokenizer", Bind<&MakeTokenizer>},
                  {"changed_files", Bind<&ChangedFiles>},
                  {"template", Bind<&MakeTemplate>},
                  {"model_template", Bind<&FindModelTemplate>},
                  {"whole_characters", Bind<&WholeCharacters>},
              });
}

}  // namespace moonring::lua
