#include "data/formats/alpaca.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "data/formats/row_fields.h"

namespace moonring::data {
namespace {

absl::Status AppendHistory(const OrderedJson& row, const Column& column,
                           std::vector<Message>& messages) {
  const OrderedJson* history = FindField(row, column);
  if (history == nullptr) return absl::OkStatus();
  if (!history->is_array())
    return absl::InvalidArgumentError(
        absl::StrCat("'", *column, "' must be an array of [prompt, response] pairs, got ",
                     history->type_name()));
  for (size_t i = 0; i < history->size(); ++i) {
    const OrderedJson& pair = (*history)[i];
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", *column, "'[", i, "] must be a pair of strings [prompt, response]"));
    }
    messages.push_back({Role::kUser, pair[0]});
    messages.push_back({Role::kAssistant, pair[1]});
  }
  return absl::OkStatus();
}

// Appends the answer in `column` to `converted.answers`. If it is null, the row is marked as
// skipped.
absl::Status AppendAnswerText(const OrderedJson& row, const Column& column,
                              ConvertedRow& converted) {
  ASSIGN_OR_RETURN(std::optional<std::string> answer, TextField(row, column));
  if (answer.has_value()) {
    converted.answers.push_back({Role::kAssistant, *std::move(answer)});
  } else {
    converted.skipped = absl::StrCat("no '", *column, "'");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ConvertedRow> ConvertAlpaca(const OrderedJson& row,
                                           const DatasetDescription& description, Stage stage) {
  if (!row.is_object())
    return absl::InvalidArgumentError(
        absl::StrCat("a row must be an object, got ", row.type_name()));
  const Columns& columns = description.columns;
  ConvertedRow converted;
  std::vector<Message>& messages = converted.conversation.messages;
  RETURN_IF_ERROR(AppendHistory(row, columns.history, messages));
  ASSIGN_OR_RETURN(const std::optional<std::string> given_prompt, TextField(row, columns.prompt));
  ASSIGN_OR_RETURN(const std::optional<std::string> given_query, TextField(row, columns.query));
  const std::string prompt = given_prompt.value_or(""), query = given_query.value_or("");
  messages.push_back({Role::kUser, prompt.empty() || query.empty()
                                       ? prompt + query
                                       : absl::StrCat(prompt, "\n", query)});
  if (stage == Stage::kPretraining) return converted;
  ASSIGN_OR_RETURN(const std::optional<std::string> system, TextField(row, columns.system));
  converted.conversation.system = system.value_or("");
  ASSIGN_OR_RETURN(const std::optional<std::string> tools, TextField(row, columns.tools));
  converted.conversation.tools = tools.value_or("");
  if (stage == Stage::kPrompts) return converted;
  if (stage == Stage::kFeedback) RETURN_IF_ERROR(ReadTag(row, columns.kto_tag, converted));
  RETURN_IF_ERROR(
      AppendAnswerText(row, stage == Stage::kPairs ? columns.chosen : columns.response, converted));
  if (stage == Stage::kPairs) RETURN_IF_ERROR(AppendAnswerText(row, columns.rejected, converted));
  if (stage == Stage::kSupervised && converted.skipped.empty()) {
    messages.push_back(std::move(converted.answers.back()));
    converted.answers.clear();
  }
  return converted;
}

}  // namespace moonring::data
