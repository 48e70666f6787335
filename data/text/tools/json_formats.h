// Tool formats that write a call as JSON, or as a name and JSON (lfm2: a Python call with JSON
// values).
#ifndef MOONRING_DATA_TEXT_TOOLS_JSON_FORMATS_H_
#define MOONRING_DATA_TEXT_TOOLS_JSON_FORMATS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/text/json/python_json.h"
#include "data/text/tools/tool_call.h"

namespace moonring::data {

absl::StatusOr<std::string> DescribeForGlm4(const OrderedJson& tools, const std::string& date);
absl::StatusOr<std::string> CallForGlm4(const std::vector<ToolCall>& calls);
absl::StatusOr<std::string> DescribeForLfm2(const OrderedJson& tools, const std::string& date);
absl::StatusOr<std::string> CallForLfm2(const std::vector<ToolCall>& calls);
// The format of Ling writes calls like Qwen's format, so it needs no function for calls.
absl::StatusOr<std::string> DescribeForLing(const OrderedJson& tools, const std::string& date);
absl::StatusOr<std::string> DescribeForLlama3(const OrderedJson& tools, const std::string& date);
absl::StatusOr<std::string> CallForLlama3(const std::vector<ToolCall>& calls);
absl::StatusOr<std::string> DescribeForMiniMax1(const OrderedJson& tools, const std::string& date);
absl::StatusOr<std::string> CallForMiniMax1(const std::vector<ToolCall>& calls);
absl::StatusOr<std::string> DescribeForMistral(const OrderedJson& tools, const std::string& date);
absl::StatusOr<std::string> CallForMistral(const std::vector<ToolCall>& calls);
absl::StatusOr<std::string> DescribeForQwen(const OrderedJson& tools, const std::string& date);
absl::StatusOr<std::string> CallForQwen(const std::vector<ToolCall>& calls);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOOLS_JSON_FORMATS_H_
