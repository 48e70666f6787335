// Formats for tool descriptions and tool calls, by the names used in templates and in the key
// tool_format. The texts are those of LLaMA-Factory 0.9.5.
//
//   describe   formats the tools (JSON objects, at least one); the result is appended to the system
//              text. A tool is {"name", "description", "parameters"}, or that under "function" next
//              to "type": "function". `date` is today's: "26 Jul 2024"
//   call       formats the calls of one message as the assistant's text
//   before, after   the strings that the model's own template writes around text next to calls,
//              which it writes before the calls; if `after` is null, the text is omitted.
//              (LLaMA-Factory always omits it.)
//   trims      whether white space at the ends of the text next to calls is removed
//
// Both functions fail with INVALID_ARGUMENT if a tool or call lacks a field that the format writes;
// the caller adds the position.
#ifndef MOONRING_DATA_TEXT_TOOLS_TOOL_FORMAT_H_
#define MOONRING_DATA_TEXT_TOOLS_TOOL_FORMAT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/text/json/python_json.h"
#include "data/text/tools/tool_call.h"

namespace moonring::data {

struct ToolFormat {
  const char* name;
  absl::StatusOr<std::string> (*describe)(const OrderedJson& tools, const std::string& date);
  absl::StatusOr<std::string> (*call)(const std::vector<ToolCall>& calls);
  const char *before, *after;
  bool trims = false;
};

// NOT_FOUND, with the nearest name and a list of all names.
absl::StatusOr<ToolFormat> FindToolFormat(absl::string_view name);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOOLS_TOOL_FORMAT_H_
