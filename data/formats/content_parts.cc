#include "data/formats/content_parts.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "comm/status/status_macros.h"

namespace moonring::data {
namespace {

absl::Status WrongPart(size_t number, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("part ", number, " ", what));
}

}  // namespace

absl::StatusOr<ContentParts> ReadContentParts(const OrderedJson& parts) {
  std::string thought, said;
  OrderedJson calls = OrderedJson::array();
  for (size_t i = 0; i < parts.size(); ++i) {
    const OrderedJson& part = parts[i];
    if (!part.is_object())
      return WrongPart(i, absl::StrCat("must be an object with 'type', got ", part.type_name()));
    const OrderedJson &type = FieldOrNull(part, "type"), &text = FieldOrNull(part, "text");
    const OrderedJson& value = text.is_null() ? FieldOrNull(part, "value") : text;
    const bool known = type == "text" || type == "reasoning" || type == "tool_call";
    if (!known)
      return WrongPart(i, absl::StrCat("has the type ", type.dump(),
                                       "; text, reasoning and tool_call can be read"));
    if (!value.is_string())
      return WrongPart(i, absl::StrCat("must have a text, got ", value.type_name()));
    if (type == "tool_call") {
      ASSIGN_OR_RETURN(OrderedJson call, ParseOrderedJson(value.get<std::string>()),
                       absl::StrCat("part ", i));
      calls.push_back(std::move(call));
    } else {
      absl::StrAppend(type == "text" ? &said : &thought, value.get<std::string>());
    }
  }
  if (!thought.empty())
    thought = absl::StrCat("<think>\n", absl::StripAsciiWhitespace(thought), "\n</think>\n\n");
  return ContentParts{.text = absl::StrCat(thought, calls.empty() ? said : PythonJson(calls)),
                      .calls = !calls.empty()};
}

}  // namespace moonring::data
