// How a model is told of its tools, and how it calls them, by the name that templates and the key
// tool_format use; as LLaMA-Factory 0.9.5 writes them.
//
//   describe   the tools (JSON objects, at least one) -> what is added to the system text. A tool
//              is {"name", "description", "parameters"}, or that under "function" beside "type":
//              "function". `date` is today's: "26 Jul 2024"
//   call       the calls of one message -> the assistant's text
//   before, after   what the model's own template puts around a text beside the calls, which stands
//              before them; without `after` it writes none. (LLaMA-Factory has no such text.)
//   trims      whether it takes off the white space at that text's ends
//
// Fail with INVALID_ARGUMENT where a tool or a call lacks what the format writes; the caller adds
// the place.
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

// NOT_FOUND, with the nearest name and the list of all.
absl::StatusOr<ToolFormat> FindToolFormat(absl::string_view name);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOOLS_TOOL_FORMAT_H_
