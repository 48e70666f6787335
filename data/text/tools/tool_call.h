// Calls of tools, and the parts of tools and calls that formats write. All fail with
// INVALID_ARGUMENT, naming the tool where it has a name.
#ifndef MOONRING_DATA_TEXT_TOOLS_TOOL_CALL_H_
#define MOONRING_DATA_TEXT_TOOLS_TOOL_CALL_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/text/json/python_json.h"

namespace moonring::data {

struct ToolCall {
  std::string name;
  OrderedJson arguments;
};

// `text` is a call {"name", "arguments"}, or a list of them. Arguments that are a JSON text are
// what it says (LLaMA-Factory writes the text, quoted); an empty one, and null, are {}.
absl::StatusOr<std::vector<ToolCall>> ParseToolCalls(absl::string_view text);

// {"type": "function", "function": {...}}, whichever of the two forms the tool has.
OrderedJson WrappedTool(const OrderedJson& tool);

// The function itself, likewise: an object with a name.
absl::StatusOr<const OrderedJson*> BareTool(const OrderedJson& tool);

absl::Status CheckObject(const OrderedJson& value, const std::string& tool, const char* what);
absl::Status CheckArguments(const ToolCall& call);

// A text as it is, anything else as JSON.
std::string TextOrJson(const OrderedJson& value);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOOLS_TOOL_CALL_H_
