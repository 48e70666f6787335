// A row converted to a conversation, with the other data that the training stage needs.
#ifndef MOONRING_DATA_FORMATS_CONVERTED_ROW_H_
#define MOONRING_DATA_FORMATS_CONVERTED_ROW_H_

#include <optional>
#include <string>
#include <vector>

#include "data/text/conversation.h"

namespace moonring::data {

// The contents depend on the stage:
//
//   pretraining  the text is the first message
//   supervised   the conversation ends with the answer
//   pairs        the conversation ends with the prompt; answers are {chosen, rejected}
//   feedback     the conversation ends with the prompt; answers are {answer}
//   prompts      the conversation ends with the prompt
struct ConvertedRow {
  Conversation conversation;
  // in feedback, also set if the row is skipped because it has no tag
  std::vector<Message> answers;
  std::optional<bool> desirable;  // feedback
  std::string skipped;            // why the row is skipped; empty if it is not
  // notes that are reported with the number of such rows: "with ..."
  std::vector<std::string> noted;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FORMATS_CONVERTED_ROW_H_
