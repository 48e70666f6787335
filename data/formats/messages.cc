#include "data/formats/messages.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "comm/status_macros.h"
#include "data/formats/row_fields.h"

namespace moonring::data {
namespace {

using nlohmann::json;

// The role as the row writes it; none where it is null.
absl::StatusOr<std::optional<std::string>> ReadRole(const json& message, const Tags& tags, absl::string_view where) {
  if (!message.is_object()) return absl::InvalidArgumentError(absl::StrCat(where, " must be a message (an object), got ", message.type_name()));
  ASSIGN_OR_RETURN(const std::optional<std::string> role, TextField(message, tags.role_tag), where);
  const auto calls = message.find("tool_calls");
  const bool tools = calls != message.end() && !calls->is_null() && !calls->empty();
  if (tools || (role.has_value() && (role == tags.observation_tag || role == tags.function_tag))) {
    return absl::UnimplementedError(absl::StrCat(where, ": not supported yet: ", tools ? "tool_calls" : absl::StrCat("the role '", *role, "'")));
  }
  return role;
}

absl::StatusOr<std::string> ReadContent(const json& message, const Tags& tags, absl::string_view where) {
  ASSIGN_OR_RETURN(std::optional<std::string> content, TextField(message, tags.content_tag), where);
  if (!content.has_value()) return absl::InvalidArgumentError(absl::StrCat(where, ": '", *tags.content_tag, "' must be a string, got null"));
  return *std::move(content);
}

// Messages `first` .. of the row into the conversation; false where user and assistant do not take turns.
absl::StatusOr<bool> ReadTurns(const json& listed, size_t first, const DatasetDescription& description, std::vector<Message>& messages) {
  for (size_t i = first; i < listed.size(); ++i) {
    const std::string where = absl::StrCat("'", *description.columns.messages, "'[", i, "]");
    ASSIGN_OR_RETURN(const std::optional<std::string> role, ReadRole(listed[i], description.tags, where));
    const bool user = (i - first) % 2 == 0;
    if (role != (user ? description.tags.user_tag : description.tags.assistant_tag)) return false;
    ASSIGN_OR_RETURN(std::string content, ReadContent(listed[i], description.tags, where));
    messages.push_back({user ? Role::kUser : Role::kAssistant, std::move(content)});
  }
  return true;
}

absl::Status AppendAnswer(const json& row, const Column& column, const Tags& tags, ConvertedRow& converted) {
  const json* message = FindField(row, column);
  if (message == nullptr) {
    converted.skipped = absl::StrCat("no '", *column, "'");
    return absl::OkStatus();
  }
  const std::string where = absl::StrCat("'", *column, "'");
  ASSIGN_OR_RETURN(const std::optional<std::string> role, ReadRole(*message, tags, where));
  if (role != tags.assistant_tag) {
    converted.skipped = absl::StrCat("'", *column, "' that is not the assistant's");
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(std::string content, ReadContent(*message, tags, where));
  converted.answers.push_back(std::move(content));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ConvertedRow> ConvertMessages(const json& row, const DatasetDescription& description, Stage stage) {
  if (!row.is_object()) return absl::InvalidArgumentError(absl::StrCat("a row must be an object, got ", row.type_name()));
  const Columns& columns = description.columns;
  const Tags& tags = description.tags;
  ConvertedRow converted;
  const json* listed = FindField(row, columns.messages);
  if (listed == nullptr || listed->empty()) {
    converted.skipped = "without any message";
    return converted;
  }
  if (!listed->is_array()) return absl::InvalidArgumentError(absl::StrCat("'", *columns.messages, "' must be an array of messages, got ", listed->type_name()));
  ASSIGN_OR_RETURN(const std::optional<std::string> first_role, ReadRole(listed->front(), tags, absl::StrCat("'", *columns.messages, "'[0]")));
  const bool leads = tags.system_tag.has_value() && first_role == tags.system_tag;
  ASSIGN_OR_RETURN(const std::optional<std::string> system, leads ? TextField(listed->front(), tags.content_tag) : TextField(row, columns.system));
  converted.conversation.system = system.value_or("");
  std::vector<Message>& messages = converted.conversation.messages;
  ASSIGN_OR_RETURN(const bool in_turns, ReadTurns(*listed, leads ? 1 : 0, description, messages));
  if (!in_turns || messages.size() % 2 != (stage == Stage::kPairs ? 1 : 0) || messages.empty()) {
    converted.skipped = !in_turns          ? "whose user and assistant do not take turns"
                        : messages.empty() ? "without any message"
                                           : absl::StrCat("that do not end with ", stage == Stage::kPairs ? "the user's message" : "an answer");
    return converted;
  }
  if (stage == Stage::kPairs) {
    RETURN_IF_ERROR(AppendAnswer(row, columns.chosen, tags, converted));
    RETURN_IF_ERROR(AppendAnswer(row, columns.rejected, tags, converted));
  } else if (stage == Stage::kFeedback) {
    RETURN_IF_ERROR(ReadTag(row, columns.kto_tag, converted));
    converted.answers.push_back(std::move(messages.back().content));
    messages.pop_back();
  }
  return converted;
}

}  // namespace moonring::data
