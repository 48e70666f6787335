// Who says what, in order: what a chat template is given, and every row format is read into. And
// the same as token ids.
#ifndef MOONRING_DATA_TEXT_CONVERSATION_H_
#define MOONRING_DATA_TEXT_CONVERSATION_H_

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

// One turn as token ids: what is given, and what answers it.
struct EncodedTurn {
  std::vector<int32_t> prompt;
  std::vector<int32_t> response;
  int64_t opening = 0;  // how many tokens at the prompt's end belong to the answer: an empty
                        // thought that is given
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_CONVERSATION_H_
