#include "data/formats/messages.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "data/formats/message_fields.h"
#include "data/formats/message_reader.h"
#include "data/formats/row_fields.h"

namespace moonring::data {
namespace {

constexpr char kUnanswered[] = "that end with tool results without an answer, which are dropped";

// Collects messages as alternating turns.
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

  // Adds a tool's result. Consecutive results are joined into one message; results with no message
  // after them are dropped.
  void AddResult(Message result) { results_.push_back(std::move(result)); }

  // Joins the pending results into one message, which is trained if the first one is marked so.
  void AddResults() {
    if (results_.empty()) return;
    constexpr char kBetween[] = "\n</tool_response>\n<tool_response>\n";
    Message joined = std::move(results_.front());
    for (size_t i = 1; i < results_.size(); ++i)
      absl::StrAppend(&joined.content, kBetween, results_[i].content);
    messages_.push_back(std::move(joined));
    results_.clear();
  }

 private:
  std::vector<Message>& messages_;
  std::vector<Message> results_;
};

// The reason for skipping a row that has a message with a role that is not allowed at its position.
std::string OutOfTurn(const std::optional<std::string>& word, const std::optional<Role>& role,
                      const Tags& tags) {
  if (!word.has_value())
    return absl::StrCat("with a message that has no '", tags.role_tag.value_or("role"),
                        "' (the description's 'tags' say which key is the role)");
  if (!role.has_value() && word != tags.system_tag)
    return "with a role that the description's 'tags' do not name";
  return "whose user and assistant do not take turns";
}

// Reads the messages from index `first` on into the conversation. Returns the reason for skipping
// the row, or an empty string.
absl::StatusOr<std::string> ReadTurns(const OrderedJson& listed, size_t first,
                                      const DatasetDescription& description, Stage stage,
                                      bool openai, MessageReader& reader, ConvertedRow& converted) {
  Turns turns(converted.conversation.messages);
  bool in_results = false;
  for (size_t i = first; i < listed.size(); ++i) {
    const std::string where = absl::StrCat("'", *description.columns.messages, "'[", i, "]");
    ASSIGN_OR_RETURN(const std::optional<std::string> word, reader.Word(listed[i], where));
    const std::optional<Role> role = reader.RoleOf(word);
    const bool result = openai && role == Role::kObservation;
    if (!role.has_value() || !(turns.Takes(*role) || (result && in_results)))
      return OutOfTurn(word, role, description.tags);
    in_results = result;
    ASSIGN_OR_RETURN(Message message, reader.Read(listed[i], *role, where));
    if (result) {
      turns.AddResult(std::move(message));
    } else {
      turns.Add(std::move(message));
    }
  }
  if (stage == Stage::kPairs || stage == Stage::kPrompts) {
    turns.AddResults();  // the results belong to the prompt
  } else if (in_results) {
    NoteOnce(kUnanswered, converted.noted);
  }
  return "";
}

absl::Status AppendAnswerMessage(const OrderedJson& row, const Column& column,
                                 MessageReader& reader, ConvertedRow& converted) {
  const OrderedJson* message = FindField(row, column);
  if (message == nullptr) {
    converted.skipped = absl::StrCat("no '", *column, "'");
    return absl::OkStatus();
  }
  const std::string where = absl::StrCat("'", *column, "'");
  ASSIGN_OR_RETURN(const std::optional<std::string> word, reader.Word(*message, where));
  const std::optional<Role> role = reader.RoleOf(word);
  if (!role.has_value() || !IsAnswer(*role)) {
    converted.skipped = absl::StrCat("'", *column, "' that is not the assistant's");
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(converted.answers.emplace_back(), reader.Read(*message, *role, where));
  return absl::OkStatus();
}

// Reads a non-empty list of messages into `converted.conversation`.
absl::Status ReadConversation(const OrderedJson& row, const OrderedJson& listed,
                              const DatasetDescription& description, Stage stage, bool openai,
                              MessageReader& reader, ConvertedRow& converted) {
  const std::string where = absl::StrCat("'", *description.columns.messages, "'[0]");
  ASSIGN_OR_RETURN(const std::optional<std::string> first, reader.Word(listed.front(), where));
  const bool leads = reader.IsSystem(first);
  if (leads) {
    RETURN_IF_ERROR(reader.ReadSystem(listed.front(), where, converted.conversation));
  } else {
    ASSIGN_OR_RETURN(const std::optional<std::string> system,
                     TextField(row, description.columns.system));
    converted.conversation.system = system.value_or("");
  }
  ASSIGN_OR_RETURN(converted.skipped,
                   ReadTurns(listed, leads ? 1 : 0, description, stage, openai, reader, converted));
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
  ConvertedRow converted;
  const OrderedJson* listed = FindField(row, columns.messages);
  if (listed == nullptr || listed->empty()) {
    converted.skipped = "without any message";
    return converted;
  }
  if (!listed->is_array())
    return absl::InvalidArgumentError(absl::StrCat(
        "'", *columns.messages, "' must be an array of messages, got ", listed->type_name()));
  MessageReader reader(description.tags, tools == ToolMessages::kAsOpenai, converted.noted);
  RETURN_IF_ERROR(ReadConversation(row, *listed, description, stage,
                                   tools == ToolMessages::kAsOpenai, reader, converted));
  std::vector<Message>& messages = converted.conversation.messages;
  if (!converted.skipped.empty()) return converted;
  if (stage == Stage::kPrompts && messages.size() % 2 == 0 && !messages.empty())
    messages.pop_back();  // drops the answer in the row
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
    RETURN_IF_ERROR(AppendAnswerMessage(row, columns.chosen, reader, converted));
    RETURN_IF_ERROR(AppendAnswerMessage(row, columns.rejected, reader, converted));
  } else if (stage == Stage::kFeedback) {
    RETURN_IF_ERROR(ReadTag(row, columns.kto_tag, converted));
    converted.answers.push_back(std::move(messages.back()));
    messages.pop_back();
  }
  return converted;
}

}  // namespace moonring::data
