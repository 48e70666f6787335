// What a stage of training wants of a data set, and whether a description gives it.
//
//   pt             pretraining  texts: alpaca's prompt and query (so "columns": {"prompt":
//                               "text"}), answers unread
//   sft            supervised   conversations, the answers learnt
//   rm, dpo        pairs        a conversation and two answers to it ("ranking": true)
//   kto            feedback     a conversation whose answer is marked true or false (the column
//                               kto_tag)
//   grpo and kin   prompts      a conversation to be answered: an answer at its end is left out,
//                               other columns are kept for who judges the answers. Any data set
//                               of conversations will do
//
// A data set of one kind in a stage of another is refused before any row is read, as are columns
// that nothing reads yet.
#ifndef MOONRING_DATA_DESCRIPTION_STAGE_H_
#define MOONRING_DATA_DESCRIPTION_STAGE_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/description/dataset_info.h"

namespace moonring::data {

enum class Stage { kPretraining, kSupervised, kPairs, kFeedback, kPrompts };

// "pt", "sft", "rm", "dpo", "kto", "prompts".
absl::StatusOr<Stage> ParseStage(absl::string_view name);

// A column that the stage reads of a data set's rows.
struct UsedColumn {
  const char* key;
  Column column;        // of the data set; none where it has no such column
  bool needed = false;  // the stage cannot do without it
};

std::vector<UsedColumn> UsedColumns(const DatasetDescription& description, Stage stage);

absl::Status CheckStage(const DatasetDescription& description, Stage stage);

}  // namespace moonring::data

#endif  // MOONRING_DATA_DESCRIPTION_STAGE_H_
