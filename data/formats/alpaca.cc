#include "data/formats/alpaca.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/status_macros.h"

namespace moonring::data {
namespace {

using nlohmann::json;

// The text under a column; "" where there is no such column or it is null. `present` tells null from "".
absl::StatusOr<std::string> Text(const json& row, const Column& column, bool* present = nullptr) {
  if (present != nullptr) *present = false;
  if (!column.has_value()) return std::string();
  const auto found = row.find(*column);
  if (found == row.end() || found->is_null()) return std::string();
  if (!found->is_string()) return absl::InvalidArgumentError(absl::StrCat("'", *column, "' must be a string, got ", found->type_name()));
  if (present != nullptr) *present = true;
  return found->get<std::string>();
}

absl::Status AppendHistory(const json& row, const Column& column, std::vector<Message>& messages) {
  if (!column.has_value()) return absl::OkStatus();
  const auto history = row.find(*column);
  if (history == row.end() || history->is_null()) return absl::OkStatus();
  if (!history->is_array())
    return absl::InvalidArgumentError(absl::StrCat("'", *column, "' must be an array of [prompt, response] pairs, got ", history->type_name()));
  for (size_t i = 0; i < history->size(); ++i) {
    const json& pair = (*history)[i];
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      return absl::InvalidArgumentError(absl::StrCat("'", *column, "'[", i, "] must be a pair of strings [prompt, response]"));
    }
    messages.push_back({Role::kUser, pair[0]});
    messages.push_back({Role::kAssistant, pair[1]});
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckAlpaca(const DatasetDescription& description) {
  if (description.ranking) return absl::UnimplementedError("not supported yet: ranking");
  const Columns& columns = description.columns;
  const std::pair<const char*, const Column*> later[] = {
      {"tools", &columns.tools}, {"images", &columns.images}, {"videos", &columns.videos}, {"audios", &columns.audios}, {"kto_tag", &columns.kto_tag}};
  for (const auto& [key, column] : later) {
    if (column->has_value()) return absl::UnimplementedError(absl::StrCat("not supported yet: the column '", key, "'"));
  }
  if (!columns.response.has_value()) {
    return absl::InvalidArgumentError("'columns' names no 'response', so there is nothing to learn (a key absent from 'columns' has no default)");
  }
  if (!columns.prompt.has_value() && !columns.query.has_value()) {
    return absl::InvalidArgumentError("'columns' names neither 'prompt' nor 'query' (a key absent from 'columns' has no default)");
  }
  return absl::OkStatus();
}

absl::StatusOr<ConvertedRow> ConvertAlpaca(const json& row, const Columns& columns) {
  if (!row.is_object()) return absl::InvalidArgumentError(absl::StrCat("a row must be an object, got ", row.type_name()));
  ConvertedRow converted;
  std::vector<Message>& messages = converted.conversation.messages;
  RETURN_IF_ERROR(AppendHistory(row, columns.history, messages));
  ASSIGN_OR_RETURN(std::string prompt, Text(row, columns.prompt));
  ASSIGN_OR_RETURN(const std::string query, Text(row, columns.query));
  messages.push_back({Role::kUser, prompt.empty() || query.empty() ? prompt + query : absl::StrCat(prompt, "\n", query)});
  bool answered = false;
  ASSIGN_OR_RETURN(std::string response, Text(row, columns.response, &answered));
  if (!answered) converted.skipped = absl::StrCat("no '", *columns.response, "'");
  messages.push_back({Role::kAssistant, std::move(response)});
  ASSIGN_OR_RETURN(converted.conversation.system, Text(row, columns.system));
  return converted;
}

}  // namespace moonring::data
