// Tool calls, and helpers that tool formats share. All errors are INVALID_ARGUMENT and name the
// tool if its name is known.
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

// Parses a call {"name", "arguments"} or a list of them. Arguments that are a string of JSON are
// parsed (LLaMA-Factory writes the quoted string); an empty string and null are {}.
absl::StatusOr<std::vector<ToolCall>> ParseToolCalls(absl::string_view text);

// Returns the tool as {"type": "function", "function": {...}}. `tool` has that form, or is the
// function object itself.
OrderedJson WrappedTool(const OrderedJson& tool);

// Returns the function object of a tool in either form. The object must have a name.
absl::StatusOr<const OrderedJson*> BareTool(const OrderedJson& tool);

absl::Status CheckObject(const OrderedJson& value, const std::string& tool, const char* what);
absl::Status CheckArguments(const ToolCall& call);

// A string verbatim, any other value as JSON.
std::string TextOrJson(const OrderedJson& value);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOOLS_TOOL_CALL_H_
