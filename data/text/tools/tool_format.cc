#include "data/text/tools/tool_format.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/nearest_name.h"
#include "data/text/tools/json_formats.h"
#include "data/text/tools/tagged_formats.h"
#include "data/text/tools/worded_formats.h"

namespace moonring::data {
namespace {

// `before` and `after` follow the models' own templates. Llama 3's and Mistral's templates omit
// text next to calls, Gemma 4's writes the text after the tools' results, GLM-4's writes it as a
// separate answer. Formats that are not specific to one model write the text as Qwen's template
// does.
constexpr ToolFormat kFormats[] = {
    {"default", &DescribeInWords, &CallInWords, "", "\n"},
    {"gemma4", &DescribeForGemma4, &CallForGemma4, nullptr, nullptr},
    {"glm4", &DescribeForGlm4, &CallForGlm4, "\n", "<|assistant|>"},
    {"glm4_moe", &DescribeForGlm4Moe, &CallForGlm4Moe, "\n", "", true},
    {"lfm2", &DescribeForLfm2, &CallForLfm2, "", ""},
    {"ling", &DescribeForLing, &CallForQwen, "", "\n"},
    {"llama3", &DescribeForLlama3, &CallForLlama3, nullptr, nullptr},
    {"minimax1", &DescribeForMiniMax1, &CallForMiniMax1, "", "\n"},
    {"minimax2", &DescribeForMiniMax2, &CallForMiniMax2, "", "\n"},
    {"mistral", &DescribeForMistral, &CallForMistral, nullptr, nullptr},
    {"qwen", &DescribeForQwen, &CallForQwen, "", "\n"},
    {"qwen3_5", &DescribeForQwen35, &CallForQwen35, "", "\n\n", true},
    {"seed_oss", &DescribeForSeedOss, &CallForSeedOss, "", "\n", true},
};

}  // namespace

absl::StatusOr<ToolFormat> FindToolFormat(absl::string_view name) {
  std::vector<std::string> names;
  for (const ToolFormat& format : kFormats) {
    if (name == format.name) return format;
    names.push_back(format.name);
  }
  return absl::NotFoundError(absl::StrCat("tool_format: no '", name, "'",
                                          base::DidYouMean(name, names), "; there are ",
                                          absl::StrJoin(names, ", ")));
}

}  // namespace moonring::data
