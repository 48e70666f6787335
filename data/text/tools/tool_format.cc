#include "data/text/tools/tool_format.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/text/nearest_name.h"
#include "data/text/tools/json_formats.h"
#include "data/text/tools/tagged_formats.h"
#include "data/text/tools/worded_formats.h"

namespace moonring::data {
namespace {

constexpr ToolFormat kFormats[] = {
    {"default", &DescribeInWords, &CallInWords},
    {"gemma4", &DescribeForGemma4, &CallForGemma4},
    {"glm4", &DescribeForGlm4, &CallForGlm4},
    {"glm4_moe", &DescribeForGlm4Moe, &CallForGlm4Moe},
    {"lfm2", &DescribeForLfm2, &CallForLfm2},
    {"ling", &DescribeForLing, &CallForQwen},
    {"llama3", &DescribeForLlama3, &CallForLlama3},
    {"minimax1", &DescribeForMiniMax1, &CallForMiniMax1},
    {"minimax2", &DescribeForMiniMax2, &CallForMiniMax2},
    {"mistral", &DescribeForMistral, &CallForMistral},
    {"qwen", &DescribeForQwen, &CallForQwen},
    {"qwen3_5", &DescribeForQwen35, &CallForQwen35},
    {"seed_oss", &DescribeForSeedOss, &CallForSeedOss},
};

}  // namespace

absl::StatusOr<ToolFormat> FindToolFormat(absl::string_view name) {
  std::vector<std::string> names;
  for (const ToolFormat& format : kFormats) {
    if (name == format.name) return format;
    names.push_back(format.name);
  }
  return absl::NotFoundError(absl::StrCat("tool_format: no '", name, "'",
                                          comm::DidYouMean(name, names), "; there are ",
                                          absl::StrJoin(names, ", ")));
}

}  // namespace moonring::data
