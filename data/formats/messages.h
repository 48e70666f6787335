// What the formats share whose rows are lists of messages {role, content}: sharegpt and openai.
//
// A leading message of the system's role is the system text; without one it is the column `system`.
// Then what is given (the user's, or an observation: a tool's result) and what answers it (the
// assistant's, or a function_call: JSON) take turns, and by stage:
//
//   supervised, feedback   the last message is an answer: the one to learn or to judge
//   pairs                  the last one is to be answered; 'chosen' and 'rejected' are answers
//
// A message's content is a text, or a list of parts (data/formats/content_parts.h); what it says
// beside it is read by data/formats/message_reader.h.
//
// A row that does not keep to it is skipped, as LLaMA-Factory 0.9.5 skips it. So is a pair one of
// whose answers is another's message: there LLaMA-Factory warns, and trains on that answer in the
// user's form. Fails where a value has a wrong type, naming the key; the caller adds file and row.
#ifndef MOONRING_DATA_FORMATS_MESSAGES_H_
#define MOONRING_DATA_FORMATS_MESSAGES_H_

#include "absl/status/statusor.h"
#include "data/description/dataset_info.h"
#include "data/description/stage.h"
#include "data/formats/converted_row.h"
#include "data/text/json/python_json.h"

namespace moonring::data {

// How tools are told of: sharegpt's messages are one a turn. openai's results of several calls come
// one a message: they are one turn, joined.
enum class ToolMessages { kInTurns, kAsOpenai };

absl::StatusOr<ConvertedRow> ConvertMessages(const OrderedJson& row,
                                             const DatasetDescription& description, Stage stage,
                                             ToolMessages tools);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FORMATS_MESSAGES_H_
