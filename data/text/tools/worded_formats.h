// Tool formats with their own notation for parameters: ReAct's (default) and Gemma 4's.
#ifndef MOONRING_DATA_TEXT_TOOLS_WORDED_FORMATS_H_
#define MOONRING_DATA_TEXT_TOOLS_WORDED_FORMATS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/text/json/python_json.h"
#include "data/text/tools/tool_call.h"

namespace moonring::data {

absl::StatusOr<std::string> DescribeInWords(const OrderedJson& tools, const std::string& date);
absl::StatusOr<std::string> CallInWords(const std::vector<ToolCall>& calls);
absl::StatusOr<std::string> DescribeForGemma4(const OrderedJson& tools, const std::string& date);
absl::StatusOr<std::string> CallForGemma4(const std::vector<ToolCall>& calls);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOOLS_WORDED_FORMATS_H_
