#include "data/token_ids.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/status_macros.h"

namespace moonring::data {
namespace {

constexpr char kTokenIds[] = "input_ids", kTokenLabels[] = "labels", kTag[] = "kto_tag";

// Column prefixes of the documents of a stage's rows, in order.
std::vector<std::string> Prefixes(Stage stage) {
  if (stage == Stage::kPairs) return {"chosen_", "rejected_"};
  if (stage == Stage::kFeedback) return {"", "kl_"};
  return {""};
}

std::vector<std::string> ColumnsOf(Stage stage) {
  std::vector<std::string> columns;
  for (const std::string& prefix : Prefixes(stage)) {
    columns.push_back(prefix + kTokenIds);
    columns.push_back(prefix + kTokenLabels);
  }
  if (stage == Stage::kFeedback) columns.push_back(kTag);
  return columns;
}

absl::StatusOr<std::vector<int32_t>> ReadTokenList(const OrderedJson& value,
                                                   const std::string& name, int64_t least,
                                                   int64_t most) {
  if (!value.is_array() || value.empty()) {
    const std::string got = value.is_array() ? "an empty one" : value.type_name();
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "' must be a list of whole numbers, got ", got));
  }
  std::vector<int32_t> list;
  list.reserve(value.size());
  for (const OrderedJson& number : value) {
    if (!number.is_number_integer())
      return absl::InvalidArgumentError(absl::StrCat(
          "'", name, "' must be a list of whole numbers, got ", number.dump(), " in it"));
    const int64_t each = number.get<int64_t>();
    if ((each < least || each > most) && !(name.ends_with(kTokenLabels) && each == kNotLearnt)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", name, "' holds ", each, ", expected ", least, " to ", most,
                       name.ends_with(kTokenLabels) ? " or -100" : ""));
    }
    list.push_back(static_cast<int32_t>(each));
  }
  return list;
}

absl::StatusOr<Document> ReadTokenDocument(const OrderedJson& row, const std::string& prefix,
                                           bool needs_labels, int64_t most) {
  Document document;
  ASSIGN_OR_RETURN(document.ids, ReadTokenList(FieldOrNull(row, (prefix + kTokenIds).c_str()),
                                               prefix + kTokenIds, 0, most));
  const OrderedJson& labels = FieldOrNull(row, (prefix + kTokenLabels).c_str());
  if (labels.is_null() && !needs_labels) {
    document.labels = document.ids;
    return document;
  }
  ASSIGN_OR_RETURN(document.labels, ReadTokenList(labels, prefix + kTokenLabels, 0, most));
  if (document.ids.size() != document.labels.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", document.ids.size(), " numbers in '", prefix, kTokenIds, "' and ",
                     document.labels.size(), " in '", prefix, kTokenLabels, "'"));
  }
  return document;
}

}  // namespace

bool HasTokenIds(const OrderedJson& row) {
  return row.is_object() &&
         (row.contains(kTokenIds) || row.contains(absl::StrCat("chosen_", kTokenIds)) ||
          row.contains(absl::StrCat("rejected_", kTokenIds)));
}

absl::StatusOr<Example> ReadTokenIds(const OrderedJson& row, Stage stage,
                                     std::optional<int64_t> vocabulary) {
  const std::vector<std::string> columns = ColumnsOf(stage);
  // other columns are passed to the reward functions
  const bool prompts = stage == Stage::kPrompts;
  for (const auto& [key, value] : row.items()) {
    if (!prompts && !absl::c_linear_search(columns, key))
      return absl::InvalidArgumentError(absl::StrCat("token ids with the key '", key,
                                                     "': this stage requires ",
                                                     absl::StrJoin(columns, ", ")));
  }
  const int64_t most = vocabulary.value_or(int64_t{1} << 31) - 1;
  const bool needs_labels = stage == Stage::kPairs || stage == Stage::kFeedback;
  Example example;
  for (const std::string& prefix : Prefixes(stage)) {
    ASSIGN_OR_RETURN(example.documents.emplace_back(),
                     ReadTokenDocument(row, prefix, needs_labels, most));
  }
  if (prompts) {
    Document& prompt = example.documents[0];
    prompt.labels.assign(prompt.ids.size(), kNotLearnt);
    example.row = row.dump();
  }
  if (stage != Stage::kFeedback) return example;
  const OrderedJson& tag = FieldOrNull(row, kTag);
  if (!tag.is_boolean())
    return absl::InvalidArgumentError(
        absl::StrCat("'", kTag, "' must be true or false, got ", tag.type_name()));
  example.desirable = tag.get<bool>();
  return example;
}

}  // namespace moonring::data
