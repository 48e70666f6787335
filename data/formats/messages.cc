#include "data/formats/messages.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/status/status_macros.h"
#include "data/formats/content_parts.h"
#include "data/formats/row_fields.h"

namespace moonring::data {
namespace {

// The role as the row writes it; none where it is null.
absl::StatusOr<std::optional<std::string>> ReadRole(const OrderedJson& message, const Tags& tags,
                                                    absl::string_view where) {
  if (!message.is_object())
    return absl::InvalidArgumentError(
        absl::StrCat(where, " must be a message (an object), got ", message.type_name()));
  ASSIGN_OR_RETURN(const std::optional<std::string> role, TextField(message, tags.role_tag), where);
  return role;
}

// What a row's word for a role means; none for null and other words, the system's among them.
std::optional<Role> RoleOf(const std::optional<std::string>& word, const Tags& tags) {
  if (!word.has_value()) return std::nullopt;
  if (word == tags.user_tag) return Role::kUser;
  if (word == tags.assistant_tag) return Role::kAssistant;
  if (word == tags.observation_tag) return Role::kObservation;
  if (word == tags.function_tag) return Role::kFunctionCall;
  return std::nullopt;
}

bool IsAnswer(Role role) { return role == Role::kAssistant || role == Role::kFunctionCall; }

// The content, a text or a list of parts; none where there is none.
absl::StatusOr<std::optional<ContentParts>> FindContent(const OrderedJson& message,
                                                        const Tags& tags) {
  const OrderedJson* content = FindField(message, tags.content_tag);
  if (content != nullptr && content->is_array()) {
    ASSIGN_OR_RETURN(ContentParts parts, ReadContentParts(*content),
                     absl::StrCat("'", *tags.content_tag, "'"));
    return std::optional(std::move(parts));
  }
  ASSIGN_OR_RETURN(std::optional<std::string> text, TextField(message, tags.content_tag));
  if (!text.has_value()) return std::optional<ContentParts>();
  return std::optional(ContentParts{.text = *std::move(text)});
}

absl::StatusOr<Message> ReadMessage(const OrderedJson& message, Role role, const Tags& tags,
                                    absl::string_view where) {
  ASSIGN_OR_RETURN(std::optional<ContentParts> content, FindContent(message, tags), where);
  if (!content.has_value())
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": '", *tags.content_tag, "' must be a string, got null"));
  return Message{content->calls && IsAnswer(role) ? Role::kFunctionCall : role,
                 std::move(content->text)};
}

// The calls of an openai answer as a function call's text; none where it has none.
absl::StatusOr<std::optional<std::string>> ReadCalls(const OrderedJson& message,
                                                     absl::string_view where) {
  const OrderedJson& calls = FieldOrNull(message, "tool_calls");
  if (!PythonTruth(calls)) return std::nullopt;
  OrderedJson functions = OrderedJson::array();
  for (const OrderedJson& call : calls) {
    if (!call.contains("function"))
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": each of 'tool_calls' must have a 'function'"));
    functions.push_back(call["function"]);
  }
  return PythonJson(functions);
}

// Takes messages in, one a turn.
class Turns {
 public:
  explicit Turns(std::vector<Message>& messages) : messages_(messages) {}

  // Whether a message of this role may come next.
  bool Takes(Role role) const {
    return IsAnswer(role) == ((messages_.size() + !results_.empty()) % 2 == 1);
  }

  void Add(Message message) {
    AddResults();
    messages_.push_back(std::move(message));
  }

  // A result of a tool that others may follow, all one message. What nothing follows is left out.
  void AddResult(std::string result) { results_.push_back(std::move(result)); }

 private:
  void AddResults() {
    if (!results_.empty())
      messages_.push_back(
          {Role::kObservation, absl::StrJoin(results_, "\n</tool_response>\n<tool_response>\n")});
    results_.clear();
  }

  std::vector<Message>& messages_;
  std::vector<std::string> results_;
};

// What is wrong with a message whose role is none that may come next.
std::string OutOfTurn(const std::optional<std::string>& word, const Tags& tags) {
  if (!word.has_value())
    return absl::StrCat("with a message that has no '", tags.role_tag.value_or("role"),
                        "' (the description's 'tags' say which key is the role)");
  if (!RoleOf(word, tags).has_value() && word != tags.system_tag)
    return "with a role that the description's 'tags' do not name";
  return "whose user and assistant do not take turns";
}

// Messages `first` .. of the row into the conversation. Returns why the row is to be skipped, or
// nothing.
absl::StatusOr<std::string> ReadTurns(const OrderedJson& listed, size_t first,
                                      const DatasetDescription& description, ToolMessages tools,
                                      std::vector<Message>& messages) {
  const bool openai = tools == ToolMessages::kAsOpenai;
  Turns turns(messages);
  bool in_results = false;
  for (size_t i = first; i < listed.size(); ++i) {
    const std::string where = absl::StrCat("'", *description.columns.messages, "'[", i, "]");
    ASSIGN_OR_RETURN(const std::optional<std::string> word,
                     ReadRole(listed[i], description.tags, where));
    const std::optional<Role> role = RoleOf(word, description.tags);
    const bool result = openai && role == Role::kObservation;
    if (!role.has_value() || !(turns.Takes(*role) || (result && in_results)))
      return OutOfTurn(word, description.tags);
    in_results = result;
    std::optional<std::string> calls;
    if (openai && IsAnswer(*role)) {
      ASSIGN_OR_RETURN(calls, ReadCalls(listed[i], where));
    }
    if (calls.has_value()) {
      turns.Add({Role::kFunctionCall, *std::move(calls)});
      continue;
    }
    ASSIGN_OR_RETURN(Message message, ReadMessage(listed[i], *role, description.tags, where));
    if (result) {
      turns.AddResult(std::move(message.content));
    } else {
      turns.Add(std::move(message));
    }
  }
  return "";
}

absl::Status AppendAnswerMessage(const OrderedJson& row, const Column& column, const Tags& tags,
                                 ConvertedRow& converted) {
  const OrderedJson* message = FindField(row, column);
  if (message == nullptr) {
    converted.skipped = absl::StrCat("no '", *column, "'");
    return absl::OkStatus();
  }
  const std::string where = absl::StrCat("'", *column, "'");
  ASSIGN_OR_RETURN(const std::optional<std::string> word, ReadRole(*message, tags, where));
  const std::optional<Role> role = RoleOf(word, tags);
  if (!role.has_value() || !IsAnswer(*role)) {
    converted.skipped = absl::StrCat("'", *column, "' that is not the assistant's");
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(converted.answers.emplace_back(), ReadMessage(*message, *role, tags, where));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ConvertedRow> ConvertMessages(const OrderedJson& row,
                                             const DatasetDescription& description, Stage stage,
                                             ToolMessages tools) {
  if (!row.is_object())
    return absl::InvalidArgumentError(
        absl::StrCat("a row must be an object, got ", row.type_name()));
  const Columns& columns = description.columns;
  const Tags& tags = description.tags;
  ConvertedRow converted;
  const OrderedJson* listed = FindField(row, columns.messages);
  if (listed == nullptr || listed->empty()) {
    converted.skipped = "without any message";
    return converted;
  }
  if (!listed->is_array())
    return absl::InvalidArgumentError(absl::StrCat(
        "'", *columns.messages, "' must be an array of messages, got ", listed->type_name()));
  ASSIGN_OR_RETURN(const std::optional<std::string> first_role,
                   ReadRole(listed->front(), tags, absl::StrCat("'", *columns.messages, "'[0]")));
  const bool leads = tags.system_tag.has_value() && first_role == tags.system_tag;
  if (leads) {
    ASSIGN_OR_RETURN(const std::optional<ContentParts> system, FindContent(listed->front(), tags));
    if (system.has_value()) converted.conversation.system = system->text;
  } else {
    ASSIGN_OR_RETURN(const std::optional<std::string> system, TextField(row, columns.system));
    converted.conversation.system = system.value_or("");
  }
  std::vector<Message>& messages = converted.conversation.messages;
  ASSIGN_OR_RETURN(converted.skipped,
                   ReadTurns(*listed, leads ? 1 : 0, description, tools, messages));
  if (!converted.skipped.empty()) return converted;
  if (stage == Stage::kPrompts && messages.size() % 2 == 0 && !messages.empty())
    messages.pop_back();  // the row's own answer
  if (messages.empty()) {
    converted.skipped = "without any message";
  } else if (stage == Stage::kPrompts) {
    return converted;
  } else if (messages.size() % 2 != (stage == Stage::kPairs ? 1 : 0)) {
    converted.skipped = absl::StrCat("that do not end with ",
                                     stage == Stage::kPairs ? "the user's message" : "an answer");
  }
  if (!converted.skipped.empty()) return converted;
  if (stage == Stage::kPairs) {
    RETURN_IF_ERROR(AppendAnswerMessage(row, columns.chosen, tags, converted));
    RETURN_IF_ERROR(AppendAnswerMessage(row, columns.rejected, tags, converted));
  } else if (stage == Stage::kFeedback) {
    RETURN_IF_ERROR(ReadTag(row, columns.kto_tag, converted));
    converted.answers.push_back(std::move(messages.back()));
    messages.pop_back();
  }
  return converted;
}

}  // namespace moonring::data
