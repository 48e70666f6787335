// What every data format is read into: who says what, in order; and the same as a template encodes
// it.
#ifndef MOONRING_DATA_CONVERSATION_H_
#define MOONRING_DATA_CONVERSATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moonring::data {

// The user and a tool's result (observation) are given; the assistant's text and its calls of tools
// (as JSON) answer.
enum class Role { kUser, kAssistant, kObservation, kFunctionCall };

struct Message {
  Role role;
  std::string content;
};

// Messages are given and answered in turns. An empty system text means the template's own; tools
// are a JSON array as text, or empty.
struct Conversation {
  std::string system;
  std::string tools;
  std::vector<Message> messages;
};

// A row read by a format, as a stage wants it:
//
//   pretraining  the text is the first message
//   supervised   the conversation ends with the answer
//   pairs        it ends with what is to be answered; answers are {chosen, rejected}
//   feedback     it ends with what is to be answered; answers are {answer}
struct ConvertedRow {
  Conversation conversation;
  std::vector<Message>
      answers;  // feedback: also of a row left out for want of a tag, where it has one
  std::optional<bool> desirable;  // feedback
  std::string skipped;            // why the row is left out; empty where it is not
};

// One turn as token ids: what is given, and what answers it.
struct EncodedTurn {
  std::vector<int32_t> prompt;
  std::vector<int32_t> response;
  int64_t opening = 0;  // how many tokens at the prompt's end belong to the answer: an empty
                        // thought that is given
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_CONVERSATION_H_
