#include "data/text/parsed_template.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "comm/status/status_macros.h"
#include "data/text/jinja/python_text.h"

namespace moonring::data {
namespace {

constexpr absl::string_view kContent = "{{content}}";

using Text = std::u32string;  // places are counted in code points

Text From(const Text& text, size_t begin) { return text.substr(std::min(begin, text.size())); }

// What `longer` has that `shorter`, read along it, has not.
Text Difference(const Text& shorter, const Text& longer) {
  Text difference;
  size_t i = 0;
  for (size_t j = 0; i < shorter.size() && j < longer.size(); ++j) {
    if (shorter[i] == longer[j]) {
      ++i;
    } else {
      difference += longer[j];
    }
  }
  return difference;
}

// Whether {{name}} is in the text, any name.
bool HasPlaceholder(absl::string_view text) {
  for (size_t at = text.find("{{"); at != absl::string_view::npos; at = text.find("{{", at + 1)) {
    const absl::string_view rest = text.substr(at + 2);
    size_t end = 0;
    while (end < rest.size() && (absl::ascii_isalnum(rest[end]) || rest[end] == '_')) ++end;
    if (end > 0 && !absl::ascii_isdigit(rest[0]) && absl::StartsWith(rest.substr(end), "}}"))
      return true;
  }
  return false;
}

OrderedJson Said(const char* role, absl::string_view content) {
  return {{"role", role}, {"content", std::string(content)}};
}

}  // namespace

absl::StatusOr<TemplateSpec> ParseTemplate(const ModelTemplate& carried) {
  const std::string& prefix = carried.opening();
  const size_t opening = static_cast<size_t>(jinja::LengthOf(prefix));
  const auto render = [&](OrderedJson messages, bool prompt) -> absl::StatusOr<Text> {
    ASSIGN_OR_RETURN(const std::string text, carried.Render(std::move(messages), prompt));
    return From(jinja::CodePoints(text), opening);
  };
  const OrderedJson user = Said("user", kContent);
  ASSIGN_OR_RETURN(const Text system_slot, render({Said("system", kContent)}, false));
  ASSIGN_OR_RETURN(const Text user_with_empty_system, render({Said("system", ""), user}, true));
  ASSIGN_OR_RETURN(Text user_slot, render({user}, true));
  ASSIGN_OR_RETURN(const Text answered, render({user, Said("assistant", kContent)}, false));

  TemplateSpec spec;
  std::string assistant = jinja::Utf8(From(answered, user_slot.size()));
  spec.kind = absl::StrContains(assistant, "<think>") ? TemplateSpec::Kind::kReasoning
                                                      : TemplateSpec::Kind::kPlain;
  assistant =
      std::string(jinja::Strip(absl::StrReplaceAll(assistant, {{"<think>", ""}, {"</think>", ""}}),
                               "\n", jinja::Side::kLeft));
  std::string system = jinja::Utf8(system_slot);
  if (user_slot.size() > user_with_empty_system.size()) {
    const Text default_system = Difference(user_with_empty_system, user_slot);
    spec.default_system = jinja::Utf8(default_system);
    const size_t words = absl::StrContains(system, kContent) ? kContent.size() : 0;
    user_slot =
        From(user_slot, system_slot.size() - words + (words > 0 ? default_system.size() : 0));
  }
  spec.name = "the model's chat_template";
  if (!prefix.empty()) spec.prefix = {{Slot::Kind::kText, prefix}};
  spec.system = {{Slot::Kind::kText, std::move(system)}};
  spec.user = {{Slot::Kind::kText, jinja::Utf8(user_slot)}};
  spec.assistant = {{Slot::Kind::kText, std::move(assistant)}};
  spec.function_call = spec.assistant;
  spec.observation = spec.user;
  for (const auto& [name, slots] :
       {std::pair("system", &spec.system), std::pair("user", &spec.user),
        std::pair("assistant", &spec.assistant)}) {
    if (HasPlaceholder(slots->front().text)) continue;
    return absl::InvalidArgumentError(absl::StrCat("it writes no text for a message of the role '",
                                                   name,
                                                   "' by which its words for one could be told"));
  }
  if (HasPlaceholder(prefix))
    return absl::InvalidArgumentError(
        absl::StrCat("the tokenizer begins texts with '", prefix, "'"));
  return spec;
}

}  // namespace moonring::data
