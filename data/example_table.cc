#include "data/example_table.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/status_macros.h"
#include "data/packed_rows.h"

namespace moonring::data {
namespace {

constexpr char kIds[] = "input_ids", kMask[] = "attention_mask", kLabels[] = "labels",
               kPositions[] = "position_ids", kTags[] = "kto_tags";

std::vector<ArrowField> DocumentFields(const std::string& prefix) {
  return {{prefix + kIds, ArrowType::kInt32List},
          {prefix + kMask, ArrowType::kInt8List},
          {prefix + kLabels, ArrowType::kInt64List}};
}

// Attention mask of a neat_packing row: 1 for each token of the first text, 2 for the second, and
// so on; 0 for padding.
std::vector<int32_t> NumberedMask(const Example& row) {
  std::vector<int32_t> mask;
  for (size_t d = 0; d < row.documents.size(); ++d)
    mask.insert(mask.end(), row.documents[d].ids.size(), static_cast<int32_t>(d + 1));
  mask.insert(mask.end(), row.padding->count, 0);
  return mask;
}

absl::StatusOr<std::vector<int32_t>> ReadList(const OrderedJson& row, const std::string& name) {
  const auto found = row.find(name);
  if (found == row.end()) return absl::InvalidArgumentError(absl::StrCat("has no column ", name));
  if (!found->is_array())
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "' must be a list, got ", found->type_name()));
  std::vector<int32_t> list;
  list.reserve(found->size());
  for (const OrderedJson& number : *found) {
    if (!number.is_number_integer())
      return absl::InvalidArgumentError(absl::StrCat(
          "'", name, "' must be a list of whole numbers, got ", number.dump(), " in it"));
    const int64_t value = number.get<int64_t>();
    if (value < (name.ends_with(kLabels) ? kNotLearnt : 0) || value > INT32_MAX)
      return absl::InvalidArgumentError(absl::StrCat("'", name, "' holds ", value));
    list.push_back(static_cast<int32_t>(value));
  }
  if (list.empty()) return absl::InvalidArgumentError(absl::StrCat("'", name, "' is empty"));
  return list;
}

absl::StatusOr<Document> ReadDocument(const OrderedJson& row, const std::string& prefix) {
  Document document;
  ASSIGN_OR_RETURN(document.ids, ReadList(row, prefix + kIds));
  ASSIGN_OR_RETURN(document.labels, ReadList(row, prefix + kLabels));
  if (document.ids.size() != document.labels.size()) {
    return absl::InvalidArgumentError(absl::StrCat("has ", document.ids.size(), " numbers in '",
                                                   prefix, kIds, "' and ", document.labels.size(),
                                                   " in '", prefix, kLabels, "'"));
  }
  return document;
}

// Splits a packed row into its texts. If the mask is 1 throughout, the row is one document whose
// texts attend to each other.
absl::StatusOr<Example> ReadPackedRow(const OrderedJson& row, Document whole) {
  ASSIGN_OR_RETURN(whole.positions, ReadList(row, kPositions));
  ASSIGN_OR_RETURN(const std::vector<int32_t> mask, ReadList(row, kMask));
  if (whole.positions.size() != whole.ids.size() || mask.size() != whole.ids.size()) {
    return absl::InvalidArgumentError(absl::StrCat("'", kMask, "', '", kPositions, "' and '", kIds,
                                                   "' are of different lengths"));
  }
  if (std::all_of(mask.begin(), mask.end(), [](int32_t value) { return value == 1; }))
    return Example{.documents = {std::move(whole)}};
  Example example{.padding = RowPadding{.count = std::count(mask.begin(), mask.end(), 0),
                                        .id = whole.ids.back()}};
  const size_t end = mask.size() - example.padding->count;
  for (size_t i = 0; i < end; ++i) {
    if (i == 0 || mask[i] != mask[i - 1]) {
      if (mask[i] != static_cast<int32_t>(example.documents.size() + 1)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "'", kMask,
            "' does not number the texts of the row one after another, with 0 behind them"));
      }
      example.documents.emplace_back();
    }
    example.documents.back().ids.push_back(whole.ids[i]);
    example.documents.back().labels.push_back(whole.labels[i]);
  }
  if (example.documents.empty())
    return absl::InvalidArgumentError(absl::StrCat("'", kMask, "' is 0 throughout"));
  return example;
}

Stage StageOf(const OrderedJson& row) {
  if (row.contains(absl::StrCat("chosen_", kIds))) return Stage::kPairs;
  if (row.contains(kTags)) return Stage::kFeedback;
  return row.contains(kLabels) ? Stage::kSupervised : Stage::kPretraining;
}

const char* NameOf(Stage stage) {
  switch (stage) {
    case Stage::kPretraining:
      return "pt";
    case Stage::kSupervised:
      return "sft";
    case Stage::kPairs:
      return "rm or dpo";
    case Stage::kPrompts:
      return "grpo";
    case Stage::kFeedback:
      break;
  }
  return "kto";
}

}  // namespace

std::vector<ArrowField> ExampleFields(Stage stage, bool rows) {
  if (stage == Stage::kPretraining)
    return {{kIds, ArrowType::kInt32List}, {kMask, ArrowType::kInt8List}};
  std::vector<ArrowField> fields = DocumentFields(stage == Stage::kPairs ? "chosen_" : "");
  if (rows) fields.push_back({kPositions, ArrowType::kInt64List});
  if (stage == Stage::kSupervised) return fields;
  for (ArrowField& field : DocumentFields(stage == Stage::kPairs ? "rejected_" : "kl_"))
    fields.push_back(std::move(field));
  if (stage == Stage::kFeedback) fields.push_back({kTags, ArrowType::kBool});
  return fields;
}

bool IsPackedRow(const Example& example) {
  return example.padding.has_value() || !example.documents[0].positions.empty();
}

void ExampleRow::Add(std::vector<int32_t> list) { lists_.push_back(std::move(list)); }

void ExampleRow::AddDocument(const Document& document, bool with_labels) {
  Add(document.ids);
  Add(std::vector<int32_t>(document.ids.size(), 1));
  if (with_labels) Add(document.labels);
}

ExampleRow::ExampleRow(const Example& example, Stage stage) {
  if (example.padding.has_value()) {
    const Document row = JoinedRow(example.documents, *example.padding);
    AddDocument(row, /*with_labels=*/true);
    lists_[1] = NumberedMask(example);
    Add(row.positions);
  } else {
    for (const Document& document : example.documents)
      AddDocument(document, stage != Stage::kPretraining);
    if (IsPackedRow(example)) Add(example.documents[0].positions);
    if (example.desirable.has_value()) Add({*example.desirable ? 1 : 0});
  }
  values_.assign(lists_.begin(), lists_.end());
}

absl::StatusOr<Example> ReadExample(const OrderedJson& row, Stage stage, int32_t pad) {
  if (const Stage is = StageOf(row);
      is != stage || !row.contains(stage == Stage::kPairs ? "chosen_input_ids" : kIds)) {
    std::vector<std::string> columns;
    for (const auto& [name, value] : row.items()) columns.push_back(name);
    return absl::InvalidArgumentError(absl::StrCat(
        "its columns (", absl::StrJoin(columns, ", "), ") are not those of stage ", NameOf(stage),
        row.contains(kIds) || is == Stage::kPairs ? absl::StrCat(", but of ", NameOf(is)) : ""));
  }
  if (stage == Stage::kPretraining) {
    Document text;
    ASSIGN_OR_RETURN(text.ids, ReadList(row, kIds));
    text.labels = text.ids;
    std::replace(text.labels.begin(), text.labels.end(), pad, kNotLearnt);
    return Example{.documents = {std::move(text)}};
  }
  ASSIGN_OR_RETURN(Document first, ReadDocument(row, stage == Stage::kPairs ? "chosen_" : ""));
  if (stage == Stage::kSupervised) {
    if (row.contains(kPositions)) return ReadPackedRow(row, std::move(first));
    return Example{.documents = {std::move(first)}};
  }
  ASSIGN_OR_RETURN(Document second,
                   ReadDocument(row, stage == Stage::kPairs ? "rejected_" : "kl_"));
  Example example{.documents = {std::move(first), std::move(second)}};
  if (stage == Stage::kPairs) return example;
  if (!row[kTags].is_boolean())
    return absl::InvalidArgumentError(
        absl::StrCat("'", kTags, "' must be true or false, got ", row[kTags].dump()));
  example.desirable = row[kTags].get<bool>();
  return example;
}

}  // namespace moonring::data
