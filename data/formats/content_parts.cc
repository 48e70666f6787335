#include "data/formats/content_parts.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status/status_macros.h"
#include "data/formats/message_fields.h"

namespace moonring::data {
namespace {

absl::Status WrongPart(absl::string_view what) { return absl::InvalidArgumentError(what); }

// The first of `keys` that is not null in `part`, otherwise its "text".
const OrderedJson& FirstOf(const OrderedJson& part, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (const OrderedJson& value = FieldOrNull(part, key); !value.is_null()) return value;
  }
  return FieldOrNull(part, "text");
}

absl::StatusOr<std::string> TextOf(const OrderedJson& value) {
  if (value.is_string()) return value.get<std::string>();
  return WrongPart(absl::StrCat("must have a text, got ", value.type_name()));
}

absl::Status AppendThought(const OrderedJson& part, std::string& thought) {
  const OrderedJson& value = FirstOf(part, {"text", "value", "thinking", "reasoning"});
  if (!value.is_array()) {
    ASSIGN_OR_RETURN(const std::string text, TextOf(value));
    thought += text;
    return absl::OkStatus();
  }
  for (const OrderedJson& piece : value) {
    ASSIGN_OR_RETURN(const std::string text,
                     TextOf(piece.is_string() ? piece : FirstOf(piece, {"text", "value"})));
    thought += text;
  }
  return absl::OkStatus();
}

absl::Status AppendCall(const OrderedJson& part, ContentParts& whole,
                        std::vector<std::string>& noted) {
  OrderedJson call = {{"name", FieldOrNull(part, "name")},
                      {"arguments", FieldOrNull(part, "input")}};
  if (FieldOrNull(part, "type") == "tool_call") {
    const OrderedJson& value = FirstOf(part, {"text", "value"});
    call = value;
    if (value.is_string()) {
      ASSIGN_OR_RETURN(call, ParseOrderedJson(value.get<std::string>()));
    } else if (!value.is_object()) {
      return WrongPart(absl::StrCat("must have a text, got ", value.type_name()));
    }
  }
  if (call.is_object() && call.contains("arguments"))
    call["arguments"] = WithoutNulls(call["arguments"], noted);
  whole.calls.push_back(std::move(call));
  return absl::OkStatus();
}

absl::Status AppendPart(const OrderedJson& part, ContentParts& whole,
                        std::vector<std::string>& noted) {
  if (part.is_string()) {
    whole.text += part.get<std::string>();
    return absl::OkStatus();
  }
  if (!part.is_object())
    return WrongPart(absl::StrCat("must be an object with 'type', got ", part.type_name()));
  const OrderedJson& type = FieldOrNull(part, "type");
  if (type == "reasoning" || type == "thinking") return AppendThought(part, whole.thought);
  if (type == "tool_call" || type == "tool_use") return AppendCall(part, whole, noted);
  if (type != "text" && type != "refusal")
    return WrongPart(
        absl::StrCat("has the type ", type.dump(), "; text, reasoning and tool_call can be read"));
  ASSIGN_OR_RETURN(const std::string text, TextOf(FirstOf(part, {"text", "value", "refusal"})));
  whole.text += text;
  return absl::OkStatus();
}

// Notes members of a part that are not read.
void NotePartMembers(const OrderedJson& part, std::vector<std::string>& noted) {
  constexpr absl::string_view kRead[] = {"type",      "text",    "value", "thinking",
                                         "reasoning", "refusal", "name",  "input"};
  if (!part.is_object()) return;
  for (const auto& [key, value] : part.items()) {
    if (!absl::c_linear_search(kRead, key) && SaysSomething(value))
      NoteOnce(absl::StrCat("with '", key, "' in a part of a message, which is ignored"), noted);
  }
}

}  // namespace

absl::StatusOr<ContentParts> ReadContentParts(const OrderedJson& parts,
                                              std::vector<std::string>& noted) {
  ContentParts whole;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (const absl::Status read = AppendPart(parts[i], whole, noted); !read.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "part ", i, absl::StartsWith(read.message(), "not valid") ? ": " : " ", read.message()));
    }
    NotePartMembers(parts[i], noted);
  }
  return whole;
}

}  // namespace moonring::data
