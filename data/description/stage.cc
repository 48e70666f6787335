#include "data/description/stage.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace moonring::data {
namespace {

absl::string_view Wants(Stage stage) {
  switch (stage) {
    case Stage::kPretraining:
      return "stage pt requires texts";
    case Stage::kSupervised:
      return "stage sft requires one answer a row";
    case Stage::kPairs:
      return "stages rm and dpo require a chosen and a rejected answer a row";
    case Stage::kFeedback:
      return "stage kto requires one answer a row, marked true or false";
    case Stage::kPrompts:
      break;  // accepts data sets of every kind
  }
  return "";
}

absl::Status CheckKind(const DatasetDescription& description, Stage stage) {
  if (stage == Stage::kPrompts) return absl::OkStatus();
  const bool tagged = description.columns.kto_tag.has_value();
  if (description.ranking && stage != Stage::kPairs) {
    return absl::InvalidArgumentError(absl::StrCat(
        "is a ranking data set (\"ranking\": true in its description), and ", Wants(stage)));
  }
  if (!description.ranking && stage == Stage::kPairs) {
    return absl::InvalidArgumentError(absl::StrCat(
        "is no ranking data set (its description lacks \"ranking\": true), and ", Wants(stage)));
  }
  if (tagged && stage != Stage::kFeedback) {
    return absl::InvalidArgumentError(
        absl::StrCat("is a KTO data set ('columns' names a kto_tag, '",
                     *description.columns.kto_tag, "'), and ", Wants(stage)));
  }
  if (!tagged && stage == Stage::kFeedback) {
    return absl::InvalidArgumentError(
        absl::StrCat("is no KTO data set ('columns' names no 'kto_tag'), and ", Wants(stage)));
  }
  if (stage == Stage::kPretraining && description.formatting != "alpaca") {
    return absl::InvalidArgumentError(
        absl::StrCat("holds conversations (formatting ", description.formatting, "), and ",
                     Wants(stage), ": formatting alpaca, \"columns\": {\"prompt\": ...}"));
  }
  return absl::OkStatus();
}

absl::Status CheckTags(const Tags& tags) {
  const std::pair<const char*, const Column*> needed[] = {{"role_tag", &tags.role_tag},
                                                          {"content_tag", &tags.content_tag},
                                                          {"user_tag", &tags.user_tag},
                                                          {"assistant_tag", &tags.assistant_tag}};
  for (const auto& [key, tag] : needed) {
    if (!tag->has_value())
      return absl::InvalidArgumentError(
          absl::StrCat("'tags' names no '", key, "' (a key absent from 'tags' has no default)"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Stage> ParseStage(absl::string_view name) {
  if (name == "pt") return Stage::kPretraining;
  if (name == "sft") return Stage::kSupervised;
  if (name == "rm" || name == "dpo") return Stage::kPairs;
  if (name == "kto") return Stage::kFeedback;
  if (name == "prompts") return Stage::kPrompts;
  return absl::InvalidArgumentError(
      absl::StrCat("stage must be pt, sft, rm, dpo, kto or prompts, got '", name, "'"));
}

std::vector<UsedColumn> UsedColumns(const DatasetDescription& description, Stage stage) {
  const Columns& columns = description.columns;
  const bool alpaca = description.formatting == "alpaca";
  std::vector<UsedColumn> used;
  if (alpaca) {
    used = {{"prompt", columns.prompt}, {"query", columns.query}};
    if (stage == Stage::kSupervised || stage == Stage::kFeedback)
      used.push_back({"response", columns.response, true});
    used.push_back({"history", columns.history});
  } else {
    used = {{"messages", columns.messages, true}};
  }
  if (stage != Stage::kPretraining)
    used.insert(used.end(), {{"system", columns.system}, {"tools", columns.tools}});
  if (stage == Stage::kPairs)
    used.insert(used.end(),
                {{"chosen", columns.chosen, true}, {"rejected", columns.rejected, true}});
  if (stage == Stage::kFeedback) used.push_back({"kto_tag", columns.kto_tag, true});
  return used;
}

absl::Status CheckStage(const DatasetDescription& description, Stage stage) {
  const Columns& columns = description.columns;
  if (const absl::Status kind = CheckKind(description, stage); !kind.ok()) return kind;
  for (const UsedColumn& used : UsedColumns(description, stage)) {
    if (used.needed && !used.column.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'columns' names no '", used.key,
          "', so there is nothing to train on (a key absent from 'columns' has no default)"));
    }
  }
  if (description.formatting != "alpaca") return CheckTags(description.tags);
  if (!columns.prompt.has_value() && !columns.query.has_value()) {
    return absl::InvalidArgumentError(
        "'columns' names neither 'prompt' nor 'query' (a key absent from 'columns' has no "
        "default)");
  }
  return absl::OkStatus();
}

}  // namespace moonring::data
