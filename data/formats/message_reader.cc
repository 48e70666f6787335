#include "data/formats/message_reader.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "data/formats/message_fields.h"
#include "data/formats/row_fields.h"

namespace moonring::data {
namespace {

constexpr char kDeveloper[] =
    "with a message of the role 'developer', which is read as the system's";
constexpr char kSharegptCalls[] =
    "with 'tool_calls' or 'function_call' in a message, which are trained as calls (LLaMA-Factory "
    "ignores them in this format)";
constexpr char kRefusal[] = "with a 'refusal' in place of an answer, which is trained as its text";
constexpr char kOtherRefusal[] = "with a 'refusal' next to an answer's text, which is ignored";

}  // namespace

absl::StatusOr<std::optional<std::string>> MessageReader::Word(const OrderedJson& message,
                                                               absl::string_view where) const {
  if (!message.is_object())
    return absl::InvalidArgumentError(
        absl::StrCat(where, " must be a message (an object), got ", message.type_name()));
  ASSIGN_OR_RETURN(const std::optional<std::string> role, TextField(message, tags_.role_tag),
                   where);
  return role;
}

bool MessageReader::IsTag(absl::string_view word) const {
  for (const Column* tag : {&tags_.user_tag, &tags_.assistant_tag, &tags_.observation_tag,
                            &tags_.function_tag, &tags_.system_tag}) {
    if (tag->has_value() && **tag == word) return true;
  }
  return false;
}

std::optional<Role> MessageReader::RoleOf(const std::optional<std::string>& word) const {
  if (!word.has_value()) return std::nullopt;
  if (word == tags_.user_tag) return Role::kUser;
  if (word == tags_.assistant_tag) return Role::kAssistant;
  if (word == tags_.observation_tag) return Role::kObservation;
  if (word == tags_.function_tag) return Role::kFunctionCall;
  if (openai_ && word == "function" && !IsTag("function")) return Role::kObservation;
  return std::nullopt;
}

bool MessageReader::IsSystem(const std::optional<std::string>& word) {
  if (!tags_.system_tag.has_value() || !word.has_value()) return false;
  if (word == tags_.system_tag) return true;
  if (word != "developer" || IsTag("developer")) return false;
  NoteOnce(kDeveloper, noted_);
  return true;
}

// The message's text or list of parts; nullopt if it has no content.
absl::StatusOr<std::optional<ContentParts>> MessageReader::FindContent(
    const OrderedJson& message) const {
  const OrderedJson* content = FindField(message, tags_.content_tag);
  if (content != nullptr && content->is_array()) {
    ASSIGN_OR_RETURN(ContentParts parts, ReadContentParts(*content, noted_),
                     absl::StrCat("'", *tags_.content_tag, "'"));
    return std::optional(std::move(parts));
  }
  ASSIGN_OR_RETURN(std::optional<std::string> text, TextField(message, tags_.content_tag));
  if (!text.has_value()) return std::optional<ContentParts>();
  return std::optional(ContentParts{.text = *std::move(text)});
}

// Reads an answer's reasoning, calls and refusal into `read`.
absl::Status MessageReader::ReadAnswer(const OrderedJson& message, bool has_content,
                                       ContentParts content, Message& read) {
  ASSIGN_OR_RETURN(read.thought, ReadThought(message));
  if (!content.thought.empty() && !read.thought.empty() && content.thought != read.thought)
    return absl::InvalidArgumentError(
        "has one thought in its content and another in a field: leave one of them out");
  if (read.thought.empty()) read.thought = std::move(content.thought);
  ASSIGN_OR_RETURN(OrderedJson calls, ReadCalls(message, noted_));
  if (!calls.empty() && !openai_) NoteOnce(kSharegptCalls, noted_);
  for (OrderedJson& call : content.calls) calls.push_back(std::move(call));
  if (const OrderedJson& refusal = FieldOrNull(message, "refusal"); SaysSomething(refusal)) {
    if (!refusal.is_string())
      return absl::InvalidArgumentError(
          absl::StrCat("'refusal' must be a string, got ", refusal.type_name()));
    NoteOnce(content.text.empty() ? kRefusal : kOtherRefusal, noted_);
    if (content.text.empty()) content.text = refusal.get<std::string>();
    has_content = true;
  }
  if (calls.empty()) {
    if (!has_content && read.thought.empty())
      return absl::InvalidArgumentError(
          absl::StrCat("'", *tags_.content_tag, "' must be a string, got null"));
    read.content = std::move(content.text);
    return absl::OkStatus();
  }
  read.role = Role::kFunctionCall;
  read.content = PythonJson(calls);
  if (!absl::StripAsciiWhitespace(content.text).empty()) read.said = std::move(content.text);
  return absl::OkStatus();
}

absl::StatusOr<Message> MessageReader::Read(const OrderedJson& message, Role role,
                                            absl::string_view where) {
  Message read{.role = role};
  ASSIGN_OR_RETURN(std::optional<ContentParts> content, FindContent(message), where);
  ASSIGN_OR_RETURN(read.mark, ReadMark(message), where);
  RETURN_IF_ERROR(
      NoteOthers(message, {*tags_.role_tag, *tags_.content_tag}, IsAnswer(role), noted_), where);
  if (IsAnswer(role)) {
    RETURN_IF_ERROR(
        ReadAnswer(message, content.has_value(), std::move(content).value_or(ContentParts()), read),
        where);
    return read;
  }
  if (!content.has_value())
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": '", *tags_.content_tag, "' must be a string, got null"));
  if (!content->calls.empty() || !content->thought.empty())
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": has a thought or a call, and is not the assistant's"));
  read.content = std::move(content->text);
  return read;
}

absl::Status MessageReader::ReadSystem(const OrderedJson& message, absl::string_view where,
                                       Conversation& conversation) {
  ASSIGN_OR_RETURN(const std::optional<ContentParts> content, FindContent(message), where);
  ASSIGN_OR_RETURN(conversation.system_mark, ReadMark(message), where);
  RETURN_IF_ERROR(NoteOthers(message, {*tags_.role_tag, *tags_.content_tag}, false, noted_), where);
  if (content.has_value()) conversation.system = content->text;
  return absl::OkStatus();
}

}  // namespace moonring::data
