// What every data format is read into: who says what, in order; and the same as a template encodes it.
#ifndef MOONRING_DATA_CONVERSATION_H_
#define MOONRING_DATA_CONVERSATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moonring::data {

enum class Role { kUser, kAssistant };

struct Message {
  Role role;
  std::string content;
};

// Messages alternate, user first. An empty system text means the template's own.
struct Conversation {
  std::string system;
  std::vector<Message> messages;
};

// A row read by a format, as a stage wants it:
//
//   pretraining  the text is the first message
//   supervised   the conversation ends with the answer
//   pairs        it ends with the user's message; answers are {chosen, rejected}
//   feedback     it ends with the user's message; answers are {answer}
struct ConvertedRow {
  Conversation conversation;
  std::vector<std::string> answers;  // feedback: also of a row left out for want of a tag, where it has one
  std::optional<bool> desirable;     // feedback
  std::string skipped;               // why the row is left out; empty where it is not
};

// One turn as token ids: what is given, and what answers it.
struct EncodedTurn {
  std::vector<int32_t> prompt;
  std::vector<int32_t> response;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_CONVERSATION_H_
