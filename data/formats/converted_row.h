// A row as a format reads it: a conversation, and what a stage of training wants beside it.
#ifndef MOONRING_DATA_FORMATS_CONVERTED_ROW_H_
#define MOONRING_DATA_FORMATS_CONVERTED_ROW_H_

#include <optional>
#include <string>
#include <vector>

#include "data/text/conversation.h"

namespace moonring::data {

// By stage:
//
//   pretraining  the text is the first message
//   supervised   the conversation ends with the answer
//   pairs        it ends with what is to be answered; answers are {chosen, rejected}
//   feedback     it ends with what is to be answered; answers are {answer}
//   prompts      it ends with what is to be answered
struct ConvertedRow {
  Conversation conversation;
  // feedback: also of a row left out for want of a tag, where it has one
  std::vector<Message> answers;
  std::optional<bool> desirable;   // feedback
  std::string skipped;             // why the row is left out; empty where it is not
  std::vector<std::string> noted;  // what is told of such rows with their count: "with ..."
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FORMATS_CONVERTED_ROW_H_
