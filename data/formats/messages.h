// Common code of the formats whose rows are lists of messages {role, content}: sharegpt and openai.
//
// A first message of the system role is the system text; otherwise the column `system` is. After
// it, prompts (of the user, or an observation: a tool's result) alternate with answers (of the
// assistant, or a function_call: JSON). By stage:
//
//   supervised, feedback   the last message is the answer to train on, or to judge
//   pairs                  the last message is a prompt; 'chosen' and 'rejected' are its answers
//
// A message's content is a string or a list of parts (data/formats/content_parts.h); its other
// fields are read by data/formats/message_reader.h.
//
// Rows of any other structure are skipped, as in LLaMA-Factory 0.9.5. Pairs with an answer that is
// not the assistant's are skipped too; LLaMA-Factory warns and trains on that answer, formatted as
// a user message. Values of a wrong type are errors that name the key; the caller adds file and
// row.
#ifndef MOONRING_DATA_FORMATS_MESSAGES_H_
#define MOONRING_DATA_FORMATS_MESSAGES_H_

#include "absl/status/statusor.h"
#include "data/description/dataset_info.h"
#include "data/description/stage.h"
#include "data/formats/converted_row.h"
#include "data/text/json/python_json.h"

namespace moonring::data {

// Form of tool results: in sharegpt, each message is one turn. In openai, the results of several
// calls are separate messages, which are joined into one turn.
enum class ToolMessages { kInTurns, kAsOpenai };

absl::StatusOr<ConvertedRow> ConvertMessages(const OrderedJson& row,
                                             const DatasetDescription& description, Stage stage,
                                             ToolMessages tools);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FORMATS_MESSAGES_H_
