// Tool formats that write a call as tags, one for each argument: strings verbatim, other values as
// JSON.
#ifndef MOONRING_DATA_TEXT_TOOLS_TAGGED_FORMATS_H_
#define MOONRING_DATA_TEXT_TOOLS_TAGGED_FORMATS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/text/json/python_json.h"
#include "data/text/tools/tool_call.h"

namespace moonring::data {

absl::StatusOr<std::string> DescribeForGlm4Moe(const OrderedJson& tools, const std::string& date);
absl::StatusOr<std::string> CallForGlm4Moe(const std::vector<ToolCall>& calls);
absl::StatusOr<std::string> DescribeForMiniMax2(const OrderedJson& tools, const std::string& date);
absl::StatusOr<std::string> CallForMiniMax2(const std::vector<ToolCall>& calls);
absl::StatusOr<std::string> DescribeForQwen35(const OrderedJson& tools, const std::string& date);
absl::StatusOr<std::string> CallForQwen35(const std::vector<ToolCall>& calls);
absl::StatusOr<std::string> DescribeForSeedOss(const OrderedJson& tools, const std::string& date);
absl::StatusOr<std::string> CallForSeedOss(const std::vector<ToolCall>& calls);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOOLS_TAGGED_FORMATS_H_
