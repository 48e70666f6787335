// What every data format is read into: who says what, in order; and the same as a template encodes it.
#ifndef MOONRING_DATA_CONVERSATION_H_
#define MOONRING_DATA_CONVERSATION_H_

#include <cstdint>
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

// A row read by a format: a conversation, or why the row is left out (an empty reason means it is not).
struct ConvertedRow {
  Conversation conversation;
  std::string skipped;
};

// One turn as token ids: what is given, and what answers it.
struct EncodedTurn {
  std::vector<int32_t> prompt;
  std::vector<int32_t> response;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_CONVERSATION_H_
