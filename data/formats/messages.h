// What the formats share whose rows are lists of messages {role, content}: sharegpt and openai.
//
// A leading message of the system's role is the system text; without one it is the column `system`. Then user and assistant take
// turns, user first, and by stage:
//
//   supervised, feedback   the last message is the assistant's: the answer
//   pairs                  the last one is the user's; 'chosen' and 'rejected' are messages of the assistant
//
// A row that does not keep to it is skipped, as LLaMA-Factory 0.9.5 skips it. So is a pair one of whose answers is another's
// message: there LLaMA-Factory warns, and trains on that answer in the user's form. The roles observation and function_call (tools) are
// refused by name. Fails where a value has a wrong type, naming the key; the caller adds file and row.
#ifndef MOONRING_DATA_FORMATS_MESSAGES_H_
#define MOONRING_DATA_FORMATS_MESSAGES_H_

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "data/conversation.h"
#include "data/dataset_info.h"
#include "data/stage.h"

namespace moonring::data {

absl::StatusOr<ConvertedRow> ConvertMessages(const nlohmann::json& row, const DatasetDescription& description, Stage stage);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FORMATS_MESSAGES_H_
