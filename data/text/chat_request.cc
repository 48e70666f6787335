#include "data/text/chat_request.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/status_macros.h"
#include "base/text/nearest_name.h"

namespace moonring::data {
namespace {

absl::Status Wrong(absl::string_view where, absl::string_view expected, const OrderedJson& got) {
  constexpr size_t kMost = 80;
  std::string shown = got.is_structured() ? got.type_name() : PythonJson(got);
  if (shown.size() > kMost) shown = absl::StrCat("a ", got.type_name());
  return absl::InvalidArgumentError(absl::StrCat(where, ": expected ", expected, ", got ", shown));
}

// A text that may be absent.
absl::StatusOr<std::string> TextOrNone(const OrderedJson& object, const char* name,
                                       absl::string_view where) {
  const OrderedJson& text = FieldOrNull(object, name);
  if (text.is_null()) return std::string();
  if (!text.is_string()) return Wrong(absl::StrCat(where, ".", name), "a text", text);
  return text.get<std::string>();
}

absl::Status CheckFields(const OrderedJson& message, const std::vector<std::string>& known,
                         absl::string_view where) {
  for (const auto& [name, value] : message.items()) {
    if (value.is_null() || std::find(known.begin(), known.end(), name) != known.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat(where, ": unknown field '", name, "'",
                                                   base::DidYouMean(name, known),
                                                   "; known: ", absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> PartText(const OrderedJson& part, const std::string& where) {
  if (!part.is_object()) return Wrong(where, "a part {\"type\": \"text\", \"text\": ..}", part);
  const OrderedJson& type = FieldOrNull(part, "type");
  if (!type.is_string()) return Wrong(where + ".type", "\"text\"", type);
  if (type != "text")
    return absl::UnimplementedError(absl::StrCat(where, ".type: parts of the type '",
                                                 type.get<std::string>(),
                                                 "' are not supported: expected 'text'"));
  const OrderedJson& text = FieldOrNull(part, "text");
  if (!text.is_string()) return Wrong(where + ".text", "a text", text);
  return text.get<std::string>();
}

absl::StatusOr<std::string> ContentText(const OrderedJson& message, bool may_be_absent,
                                        const std::string& where) {
  const OrderedJson& content = FieldOrNull(message, "content");
  const std::string place = where + ".content";
  if (content.is_string()) return content.get<std::string>();
  if (content.is_null() && may_be_absent) return std::string();
  if (!content.is_array()) return Wrong(place, "a text or a list of text parts", content);
  std::vector<std::string> texts;
  for (size_t i = 0; i < content.size(); ++i) {
    ASSIGN_OR_RETURN(texts.emplace_back(),
                     PartText(content[i], absl::StrCat(place, "[", i, "]")));
  }
  return absl::StrJoin(texts, "\n");
}

absl::StatusOr<OrderedJson> ReadCall(const OrderedJson& call, const std::string& where) {
  const OrderedJson& function = FieldOrNull(call, "function");
  if (!function.is_object()) return Wrong(where + ".function", "an object", function);
  const OrderedJson &name = FieldOrNull(function, "name"),
                    &arguments = FieldOrNull(function, "arguments");
  if (!name.is_string()) return Wrong(where + ".function.name", "a text", name);
  const std::string place = where + ".function.arguments";
  OrderedJson read = arguments;
  if (arguments.is_string()) {
    ASSIGN_OR_RETURN(read, ParseOrderedJson(arguments.get_ref<const std::string&>()), place);
  }
  if (!read.is_object()) return Wrong(place, "the JSON of an object", arguments);
  ASSIGN_OR_RETURN(const std::string id, TextOrNone(call, "id", where));
  OrderedJson made = {{"type", "function"},
                      {"function", {{"name", name}, {"arguments", std::move(read)}}}};
  if (!id.empty()) made["id"] = id;
  return made;
}

absl::StatusOr<OrderedJson> ReadCalls(const OrderedJson& message, const std::string& where) {
  const OrderedJson& calls = FieldOrNull(message, "tool_calls");
  OrderedJson read = OrderedJson::array();
  if (calls.is_null()) return read;
  if (!calls.is_array()) return Wrong(where + ".tool_calls", "a list", calls);
  for (size_t i = 0; i < calls.size(); ++i) {
    ASSIGN_OR_RETURN(OrderedJson call,
                     ReadCall(calls[i], absl::StrCat(where, ".tool_calls[", i, "]")));
    read.push_back(std::move(call));
  }
  return read;
}

absl::StatusOr<std::string> RoleOf(const OrderedJson& message, const std::string& where) {
  constexpr char kRoles[] = "system, developer, user, assistant or tool";
  if (!message.is_object()) return Wrong(where, "a message {\"role\", \"content\"}", message);
  const OrderedJson& role = FieldOrNull(message, "role");
  for (const char* known : {"system", "developer", "user", "assistant", "tool"}) {
    if (role == known) return std::string(role == "developer" ? "system" : known);
  }
  return Wrong(where + ".role", kRoles, role);
}

absl::StatusOr<OrderedJson> ReadMessage(const OrderedJson& message, const std::string& where) {
  ASSIGN_OR_RETURN(const std::string role, RoleOf(message, where));
  std::vector<std::string> known = {"role", "content", "name"};
  if (role == "assistant")
    known.insert(known.end(), {"tool_calls", "reasoning_content", "reasoning"});
  if (role == "tool") known.push_back("tool_call_id");
  RETURN_IF_ERROR(CheckFields(message, known, where));
  OrderedJson calls = OrderedJson::array();
  std::string thought;
  if (role == "assistant") {
    ASSIGN_OR_RETURN(calls, ReadCalls(message, where));
    ASSIGN_OR_RETURN(thought, TextOrNone(message, "reasoning_content", where));
    if (thought.empty()) {
      ASSIGN_OR_RETURN(thought, TextOrNone(message, "reasoning", where));
    }
  }
  ASSIGN_OR_RETURN(const std::string content,
                   ContentText(message, !calls.empty() || !thought.empty(), where));
  OrderedJson read = {{"role", role}, {"content", content}};
  for (const char* name : {"name", "tool_call_id"}) {
    ASSIGN_OR_RETURN(const std::string text, TextOrNone(message, name, where));
    if (!text.empty()) read[name] = text;
  }
  if (!thought.empty()) read["reasoning_content"] = thought;
  if (!calls.empty()) read["tool_calls"] = std::move(calls);
  return read;
}

absl::StatusOr<OrderedJson> ReadTools(const OrderedJson& tools) {
  if (tools.is_null()) return OrderedJson();
  if (!tools.is_array()) return Wrong("tools", "a list", tools);
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string where = absl::StrCat("tools[", i, "]");
    if (!tools[i].is_object()) return Wrong(where, "a function", tools[i]);
    const OrderedJson &type = FieldOrNull(tools[i], "type"),
                      &name = FieldOrNull(FieldOrNull(tools[i], "function"), "name");
    if (type != "function") return Wrong(where + ".type", "\"function\"", type);
    if (!name.is_string()) return Wrong(where + ".function.name", "a text", name);
  }
  return tools.empty() ? OrderedJson() : tools;
}

std::string CallsText(const OrderedJson& calls) {
  OrderedJson list = OrderedJson::array();
  for (const OrderedJson& call : calls) list.push_back(call["function"]);
  return PythonJson(list);
}

Message MessageOf(const OrderedJson& message) {
  const std::string role = message["role"].get<std::string>();
  Message read{.role = role == "user"   ? Role::kUser
                       : role == "tool" ? Role::kObservation
                                        : Role::kAssistant,
               .content = message["content"].get<std::string>(),
               .thought = PythonText(message.value("reasoning_content", OrderedJson("")))};
  if (const OrderedJson& calls = FieldOrNull(message, "tool_calls"); !calls.is_null()) {
    read.role = Role::kFunctionCall;
    read.said = std::exchange(read.content, CallsText(calls));
  }
  return read;
}

}  // namespace

absl::StatusOr<ChatRequest> ReadChatRequest(const OrderedJson& request) {
  const OrderedJson& messages = FieldOrNull(request, "messages");
  if (!messages.is_array() || messages.empty())
    return Wrong("messages", "a list of at least one message", messages);
  ChatRequest read{.messages = OrderedJson::array()};
  for (size_t i = 0; i < messages.size(); ++i) {
    ASSIGN_OR_RETURN(OrderedJson message,
                     ReadMessage(messages[i], absl::StrCat("messages[", i, "]")));
    read.messages.push_back(std::move(message));
  }
  ASSIGN_OR_RETURN(read.tools, ReadTools(FieldOrNull(request, "tools")));
  if (FieldOrNull(request, "tool_choice") == "none") read.tools = nullptr;
  return read;
}

absl::StatusOr<Conversation> ConversationOfChat(const ChatRequest& request) {
  constexpr char kBetween[] = "\n</tool_response>\n<tool_response>\n";  // as in data of this form
  Conversation conversation;
  if (!request.tools.is_null()) conversation.tools = PythonJson(request.tools);
  std::vector<Message>& said = conversation.messages;
  for (size_t i = 0; i < request.messages.size(); ++i) {
    const OrderedJson& each = request.messages[i];
    const std::string where = absl::StrCat("messages[", i, "].role");
    if (each["role"] == "system") {
      if (!said.empty())
        return Wrong(where, "system messages before all others (this template has one)",
                     each["role"]);
      absl::StrAppend(&conversation.system, i > 0 ? "\n" : "", each["content"].get<std::string>());
      continue;
    }
    Message message = MessageOf(each);
    if (message.role == Role::kObservation && !said.empty() &&
        said.back().role == Role::kObservation) {
      absl::StrAppend(&said.back().content, kBetween, message.content);
      continue;
    }
    if (IsAnswer(message.role) != (said.size() % 2 == 1))
      return Wrong(where,
                   said.size() % 2 == 1 ? "assistant: messages take turns in this template"
                                        : "user or tool: messages take turns in this template",
                   each["role"]);
    said.push_back(std::move(message));
  }
  if (said.size() % 2 == 0)
    return absl::InvalidArgumentError(
        "messages: expected the user's or a tool's message as the last one");
  return conversation;
}

}  // namespace moonring::data
