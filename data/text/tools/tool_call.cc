#include "data/text/tools/tool_call.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"

namespace moonring::data {
namespace {

// The arguments as a JSON value. A string is parsed as JSON, as in OpenAI's format, repeatedly if
// the result is a string again. An empty string and null become {}.
absl::StatusOr<OrderedJson> BareArguments(OrderedJson arguments, const std::string& name) {
  constexpr int kWrappings = 4;  // more levels are not an accident
  for (int i = 0; i < kWrappings && arguments.is_string(); ++i) {
    const std::string text = arguments.get<std::string>();
    if (absl::StripAsciiWhitespace(text).empty()) return OrderedJson::object();
    ASSIGN_OR_RETURN(arguments, ParseOrderedJson(text), "the arguments of the call '", name,
                     "' are a text that must be JSON, as {\"place\": \"Rome\"}");
  }
  if (arguments.is_null()) return OrderedJson::object();
  return arguments;
}

bool IsWrapped(const OrderedJson& tool) { return FieldOrNull(tool, "type") == "function"; }

}  // namespace

absl::StatusOr<std::vector<ToolCall>> ParseToolCalls(absl::string_view text) {
  ASSIGN_OR_RETURN(OrderedJson listed, ParseOrderedJson(text));
  if (!listed.is_array()) listed = OrderedJson::array({std::move(listed)});
  std::vector<ToolCall> calls;
  for (OrderedJson& call : listed) {
    const OrderedJson& name = FieldOrNull(call, "name");
    if (!name.is_string() || !call.contains("arguments")) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a call must be an object with 'name' and 'arguments', got ", PythonJson(call)));
    }
    ToolCall& made = calls.emplace_back(ToolCall{name.get<std::string>(), OrderedJson()});
    ASSIGN_OR_RETURN(made.arguments, BareArguments(std::move(call["arguments"]), made.name));
  }
  return calls;
}

OrderedJson WrappedTool(const OrderedJson& tool) {
  return IsWrapped(tool) ? tool : OrderedJson{{"type", "function"}, {"function", tool}};
}

absl::StatusOr<const OrderedJson*> BareTool(const OrderedJson& tool) {
  const OrderedJson& bare = IsWrapped(tool) ? FieldOrNull(tool, "function") : tool;
  if (!FieldOrNull(bare, "name").is_string())
    return absl::InvalidArgumentError(
        absl::StrCat("a tool must be an object with a 'name', got ", PythonJson(tool)));
  return &bare;
}

absl::Status CheckObject(const OrderedJson& value, const std::string& tool, const char* what) {
  if (value.is_object()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tool '", tool, "': ", what, " must be an object, got ", PythonJson(value)));
}

absl::Status CheckArguments(const ToolCall& call) {
  return CheckObject(call.arguments, call.name, "the arguments of a call");
}

std::string TextOrJson(const OrderedJson& value) {
  return value.is_string() ? value.get<std::string>() : PythonJson(value);
}

}  // namespace moonring::data
