// The kind of data that each training stage requires, and a check that a data set's description
// fits the stage.
//
//   pt             pretraining  texts: alpaca's prompt and query (so "columns": {"prompt":
//                               "text"}); answers are not read
//   sft            supervised   conversations; their answers are trained
//   rm, dpo        pairs        a conversation and two answers to it ("ranking": true)
//   kto            feedback     a conversation whose answer is marked true or false (the column
//                               kto_tag)
//   grpo etc.      prompts      a conversation to complete: an answer at its end is removed, other
//                               columns are kept for the reward functions. Any data set of
//                               conversations is accepted
//
// A data set of the wrong kind is rejected before any row is read, and so are columns that are not
// supported.
#ifndef MOONRING_DATA_DESCRIPTION_STAGE_H_
#define MOONRING_DATA_DESCRIPTION_STAGE_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/description/dataset_info.h"

namespace moonring::data {

enum class Stage { kPretraining, kSupervised, kPairs, kFeedback, kPrompts };

// Parses "pt", "sft", "rm", "dpo", "kto" or "prompts".
absl::StatusOr<Stage> ParseStage(absl::string_view name);

// A column of the data set's rows that the stage reads.
struct UsedColumn {
  const char* key;
  Column column;        // nullopt if the data set has no such column
  bool needed = false;  // required by the stage
};

std::vector<UsedColumn> UsedColumns(const DatasetDescription& description, Stage stage);

absl::Status CheckStage(const DatasetDescription& description, Stage stage);

}  // namespace moonring::data

#endif  // MOONRING_DATA_DESCRIPTION_STAGE_H_
