#include "data/text/chat_prompt.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "data/text/chat_request.h"

namespace moonring::data {
namespace {

absl::StatusOr<bool> Flag(const OrderedJson& request, const char* name, bool absent) {
  const OrderedJson& value = FieldOrNull(request, name);
  if (value.is_null()) return absent;
  if (!value.is_boolean())
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": expected true or false, got ", PythonJson(value)));
  return value.get<bool>();
}

// The variables of the request's chat_template_kwargs, an empty object if there are none.
absl::StatusOr<OrderedJson> Variables(const OrderedJson& request) {
  const OrderedJson& given = FieldOrNull(request, "chat_template_kwargs");
  if (given.is_null()) return OrderedJson::object();
  if (!given.is_object())
    return absl::InvalidArgumentError(
        absl::StrCat("chat_template_kwargs: expected an object, got a ", given.type_name()));
  for (const char* own : {"messages", "tools", "add_generation_prompt", "continue_final_message"}) {
    if (given.contains(own))
      return absl::InvalidArgumentError(absl::StrCat(
          "chat_template_kwargs: '", own, "' is a field of the request, not a variable in here"));
  }
  return given;
}

// Cuts a rendered conversation off behind the last message, as Transformers does.
absl::StatusOr<std::string> OpenEnded(const std::string& rendered, const OrderedJson& messages) {
  if (messages.back()["role"] != "assistant")
    return absl::InvalidArgumentError(
        "continue_final_message: expected the last message to be the assistant's");
  const std::string& content = messages.back()["content"].get_ref<const std::string&>();
  const absl::string_view sought = absl::StripAsciiWhitespace(content);
  const size_t at = rendered.rfind(std::string(sought));
  if (sought.empty() || at == std::string::npos)
    return absl::InvalidArgumentError(
        "continue_final_message: the template does not write the last message's content as it is");
  const absl::string_view whole = absl::StripLeadingAsciiWhitespace(content);
  const bool kept = rendered.compare(at, whole.size(), whole.data(), whole.size()) == 0;
  return rendered.substr(0, at + (kept ? whole.size() : sought.size()));
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> EncodeChat(const ModelTemplate& carried,
                                                const OrderedJson& request,
                                                const ChatDefaults& defaults) {
  ASSIGN_OR_RETURN(ChatRequest read, ReadChatRequest(request));
  ASSIGN_OR_RETURN(const bool continues, Flag(request, "continue_final_message", false));
  ASSIGN_OR_RETURN(const bool prompts, Flag(request, "add_generation_prompt", !continues));
  ASSIGN_OR_RETURN(OrderedJson variables, Variables(request));
  if (continues && prompts)
    return absl::InvalidArgumentError(
        "continue_final_message: expected add_generation_prompt to be false then");
  if (defaults.enable_thinking.has_value() && !variables.contains("enable_thinking"))
    variables["enable_thinking"] = *defaults.enable_thinking;
  if (!read.tools.is_null()) variables["tools"] = std::move(read.tools);
  if (!defaults.system.empty() && read.messages.front()["role"] != "system") {
    const OrderedJson first = {{"role", "system"}, {"content", defaults.system}};
    read.messages.insert(read.messages.begin(), first);
  }
  if (!continues) return carried.Encode(std::move(read.messages), prompts, variables);
  ASSIGN_OR_RETURN(const std::string rendered, carried.Render(read.messages, false, variables));
  ASSIGN_OR_RETURN(const std::string open, OpenEnded(rendered, read.messages));
  return carried.tokenizer().Encode(open);
}

absl::StatusOr<std::vector<int32_t>> EncodeChat(const ChatTemplate& named,
                                                const OrderedJson& request) {
  constexpr char kOwn[] =
      ": only with the template that a model carries; this service was given a template by name";
  ASSIGN_OR_RETURN(const ChatRequest read, ReadChatRequest(request));
  ASSIGN_OR_RETURN(const bool continues, Flag(request, "continue_final_message", false));
  ASSIGN_OR_RETURN(const bool prompts, Flag(request, "add_generation_prompt", true));
  ASSIGN_OR_RETURN(const OrderedJson variables, Variables(request));
  for (const auto& [name, given] : {std::pair("continue_final_message", continues),
                                    std::pair("add_generation_prompt", !prompts),
                                    std::pair("chat_template_kwargs", !variables.empty())}) {
    if (given) return absl::InvalidArgumentError(absl::StrCat(name, kOwn));
  }
  ASSIGN_OR_RETURN(const Conversation conversation, ConversationOfChat(read));
  return named.EncodePrompt(conversation);
}

}  // namespace moonring::data
