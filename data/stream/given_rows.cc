#include "data/stream/given_rows.h"

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/status_macros.h"
#include "data/formats/format_table.h"
#include "data/token_ids.h"

namespace moonring::data {
namespace {

constexpr char kName[] = "data source";

void AddStageColumns(Stage stage, DatasetDescription& description) {
  description.ranking = stage == Stage::kPairs;
  if (stage == Stage::kPairs) {
    description.columns.chosen = "chosen";
    description.columns.rejected = "rejected";
  }
  if (stage == Stage::kFeedback) description.columns.kto_tag = "kto_tag";
}

DatasetDescription MessagesDescription(Stage stage) {
  DatasetDescription description{.name = kName, .formatting = "sharegpt"};
  description.columns.messages = "messages";
  description.columns.system = "system";
  description.columns.tools = "tools";
  description.tags = {.role_tag = "role",
                      .content_tag = "content",
                      .user_tag = "user",
                      .assistant_tag = "assistant",
                      .observation_tag = "tool",
                      .function_tag = "function_call",
                      .system_tag = "system"};
  AddStageColumns(stage, description);
  return description;
}

DatasetDescription AlpacaDescription(Stage stage) {
  DatasetDescription description{.name = kName};
  description.columns.history = "history";
  description.columns.system = "system";
  description.columns.tools = "tools";
  AddStageColumns(stage, description);
  return description;
}

DatasetDescription TextDescription() {
  DatasetDescription description{.name = kName};
  description.columns.prompt = "text";
  description.columns.query = std::nullopt;
  return description;
}

// The columns that a row needs, for messages.
std::string Wanted(Stage stage) {
  switch (stage) {
    case Stage::kPretraining:
      return "'text' or 'input_ids'";
    case Stage::kSupervised:
      return "'messages', 'instruction' and 'output', or 'input_ids' and 'labels'";
    case Stage::kPairs:
      return "'messages' or 'instruction', with 'chosen' and 'rejected', or 'chosen_input_ids' ..";
    case Stage::kPrompts:
      return "'messages', 'instruction' or 'input_ids'";
    case Stage::kFeedback:
      break;
  }
  return "'messages', or 'instruction' and 'output', with 'kto_tag', or 'input_ids' ..";
}

// Replaces an answer given as a string by a message of the assistant.
void WriteOut(const char* key, OrderedJson& row) {
  if (row.contains(key) && row[key].is_string())
    row[key] = OrderedJson{{"role", "assistant"}, {"content", row[key].get<std::string>()}};
}

}  // namespace

absl::StatusOr<GivenRows> GivenRows::Create(const std::optional<OrderedJson>& description,
                                            Stage stage) {
  GivenRows rows(stage);
  rows.messages_ = MessagesDescription(stage);
  rows.alpaca_ = AlpacaDescription(stage);
  rows.text_ = TextDescription();
  if (!description.has_value()) return rows;
  ASSIGN_OR_RETURN(
      rows.own_, DescribeRows(kName, nlohmann::json::parse(description->dump()), RowFormatNames()),
      kName);
  rows.own_->ranking = stage == Stage::kPairs;
  RETURN_IF_ERROR(CheckStage(*rows.own_, stage), kName);
  return rows;
}

absl::StatusOr<OrderedJson> GivenRows::Normalize(OrderedJson row) const {
  if (row.is_string()) return OrderedJson{{"text", std::move(row)}};
  if (row.is_array()) {
    if (row.empty() || !row[0].is_object() || !row[0].contains("role")) {
      return absl::InvalidArgumentError(absl::StrCat(
          "is a list, expected one of messages {role, content}, or a table with ", Wanted(stage_)));
    }
    row = OrderedJson{{"messages", std::move(row)}};
  }
  if (!row.is_object())
    return absl::InvalidArgumentError(
        absl::StrCat("expected a table with ", Wanted(stage_), ", got a ", row.type_name()));
  if (!own_.has_value() && row.contains("messages")) {
    WriteOut("chosen", row);
    WriteOut("rejected", row);
  }
  return row;
}

absl::StatusOr<const DatasetDescription*> GivenRows::DescriptionOf(const OrderedJson& row) const {
  if (HasTokenIds(row)) return nullptr;
  if (own_.has_value()) return &*own_;
  if (stage_ != Stage::kPretraining && row.contains("messages")) return &messages_;
  if (stage_ == Stage::kPretraining && row.contains("text")) return &text_;
  if (row.contains("instruction") || row.contains("input")) return &alpaca_;
  std::vector<std::string> keys;
  for (const auto& [key, value] : row.items()) keys.push_back(absl::StrCat("'", key, "'"));
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", Wanted(stage_), ", got ",
                   keys.empty() ? "an empty table" : absl::StrJoin(keys, ", ")));
}

}  // namespace moonring::data
