// Chooses how rows from a script are read: by the script's own description if it has one, otherwise
// by the keys of the row.
//
//   input_ids, or chosen_input_ids ..   token ids (data/token_ids.h), whatever the description
//   messages                            {role, content} each: user, assistant, tool, function_call,
//                                       system. Also system and tools; chosen and rejected (rm,
//                                       dpo: a message of the assistant, or its text); kto_tag
//                                       (kto). Read as sharegpt with these tags
//   text                                pt
//   instruction, input, output ..       alpaca: also system, tools, history, chosen, rejected,
//                                       kto_tag
//
// A list of messages is short for {messages = list}, a string for {text = string}.
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
  // `description`: formatting, columns and tags as in dataset_info.json. Fails for an invalid
  // description, or one that does not fit the stage.
  static absl::StatusOr<GivenRows> Create(const std::optional<OrderedJson>& description,
                                          Stage stage);

  // Writes a row that is a list of messages or a string as the table that it is short for (see
  // above). Without a description from the script, also writes `chosen` and `rejected` of a row
  // with messages, if they are strings, as messages of the assistant. INVALID_ARGUMENT for a row
  // that is neither a table, a list of messages nor a string.
  absl::StatusOr<OrderedJson> Normalize(OrderedJson row) const;

  // The description by which a row (after Normalize) is read; null for token ids. INVALID_ARGUMENT,
  // with the expected and the actual keys, if the row matches none.
  absl::StatusOr<const DatasetDescription*> DescriptionOf(const OrderedJson& row) const;

 private:
  explicit GivenRows(Stage stage) : stage_(stage) {}

  Stage stage_;
  std::optional<DatasetDescription> own_;
  DatasetDescription messages_, text_, alpaca_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_STREAM_GIVEN_ROWS_H_
