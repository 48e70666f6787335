#include "data/text/parsed_template.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status/status_macros.h"
#include "data/text/jinja/python_text.h"

namespace moonring::data {
namespace {

constexpr absl::string_view kContent = "{{content}}", kThought = "{{thought}}";

using Text = std::u32string;  // indices are in code points

Text From(const Text& text, size_t begin) { return text.substr(std::min(begin, text.size())); }

// The characters of `longer` that remain when `shorter` is matched against it in order.
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

// Whether the text contains {{NAME}} for any identifier.
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

// Sets the fields of `spec` for reasoning from a separate field, if the template writes it before
// the answer's text. `answered` renders an answer with the given reasoning.
void TellThoughts(const std::function<absl::StatusOr<Text>(const std::string&)>& answered,
                  TemplateSpec& spec) {
  const auto render = [&](const std::string& thought) {
    const absl::StatusOr<Text> text = answered(thought);
    return text.ok() ? jinja::Utf8(*text) : std::string();
  };
  const std::string written = render(std::string(kThought));
  const absl::string_view slot = spec.assistant.front().text, text = written,
                          before = slot.substr(0, slot.find(kContent));
  const size_t thought = text.find(kThought);
  const size_t content = text.find(kContent, std::min(thought, text.size()));
  if (content == absl::string_view::npos || !absl::StartsWith(text, before) ||
      thought < before.size())
    return;
  const size_t end = thought + kThought.size();
  spec.writes_thoughts = true;
  spec.written_begin = std::string(text.substr(before.size(), thought - before.size()));
  spec.written_end = std::string(text.substr(end, content - end));
  const std::string spaced = render(absl::StrCat("\n ", kThought, " \n"));
  const auto has = [&](absl::string_view words) {
    return absl::StrContains(spaced, absl::StrCat(spec.written_begin, words, spec.written_end));
  };
  spec.thought_trim = has(absl::StrCat("\n ", kThought, " \n")) ? TemplateSpec::Trim::kNothing
                      : has(absl::StrCat(" ", kThought, " "))   ? TemplateSpec::Trim::kNewlines
                                                                : TemplateSpec::Trim::kSpaces;
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

  const size_t asked = user_slot.size();
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
  spec.writes_thoughts = spec.kind == TemplateSpec::Kind::kReasoning;
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
                                                   name, "' from which its slot could be derived"));
  }
  TellThoughts(
      [&](const std::string& thought) -> absl::StatusOr<Text> {
        OrderedJson answer = Said("assistant", kContent);
        for (const char* key : {"reasoning_content", "reasoning", "thinking"})
          answer[key] = thought;
        ASSIGN_OR_RETURN(const Text text, render({user, std::move(answer)}, false));
        return From(text, asked);
      },
      spec);
  if (HasPlaceholder(prefix))
    return absl::InvalidArgumentError(
        absl::StrCat("the tokenizer begins texts with '", prefix, "'"));
  return spec;
}

}  // namespace moonring::data
