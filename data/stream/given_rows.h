// How rows are read that a script gives: by a description of its own, where it has one, else by
// what a row holds.
//
//   input_ids, or chosen_input_ids ..   token ids (data/token_ids.h), whatever the description
//   messages                            {role, content} each: user, assistant, tool, function_call,
//                                       system. Beside them system and tools; chosen and rejected
//                                       (rm, dpo: a message of the assistant, or its text alone);
//                                       kto_tag (kto). As sharegpt with these tags
//   text                                pt
//   instruction, input, output ..       alpaca: also system, tools, history, chosen, rejected,
//                                       kto_tag
//
// A list of messages is short for {messages = list}, a text for {text = text}.
#ifndef MOONRING_DATA_STREAM_GIVEN_ROWS_H_
#define MOONRING_DATA_STREAM_GIVEN_ROWS_H_

#include <optional>

#include "absl/status/statusor.h"
#include "data/description/dataset_info.h"
#include "data/description/stage.h"
#include "data/text/json/python_json.h"

namespace moonring::data {

class GivenRows {
 public:
  // `description`: formatting, columns and tags as in dataset_info.json. Fails as that does, and
  // where it does not fit the stage.
  static absl::StatusOr<GivenRows> Create(const std::optional<OrderedJson>& description,
                                          Stage stage);

  // The row with what is short for something written out. INVALID_ARGUMENT where it is neither.
  absl::StatusOr<OrderedJson> Normalize(OrderedJson row) const;

  // The description that a row (after Normalize) is read by; null: token ids. INVALID_ARGUMENT,
  // with what was wanted and what came, where it is of no kind.
  absl::StatusOr<const DatasetDescription*> DescriptionOf(const OrderedJson& row) const;

 private:
  explicit GivenRows(Stage stage) : stage_(stage) {}

  Stage stage_;
  std::optional<DatasetDescription> own_;
  DatasetDescription messages_, text_, alpaca_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_STREAM_GIVEN_ROWS_H_
