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

inline bool IsAnswer(Role role) { return role == Role::kAssistant || role == Role::kFunctionCall; }

// What a message's author says of learning it (its weight, loss, trainable): that it is learnt, or
// not; none where it says nothing.
using LearnMark = std::optional<bool>;

struct Message {
  Role role;
  std::string content;  // of a function call: the calls, as JSON
  // An answer's thought in a field of its own, and a function call's text in one beside the calls;
  // empty: none. (A content may hold both too, as its author wrote them.)
  std::string thought = "";
  std::string said = "";
  LearnMark mark = std::nullopt;

  bool learnt() const { return mark.value_or(true); }
};

// Messages are given and answered in turns. An empty system text means the template's own; tools
// are a JSON array as text, or empty.
struct Conversation {
  std::string system;
  std::string tools;
  std::vector<Message> messages;
  LearnMark system_mark = std::nullopt;
};

// One turn as token ids: what is given, and what answers it.
struct EncodedTurn {
  std::vector<int32_t> prompt;
  std::vector<int32_t> response;
  int64_t opening = 0;  // how many tokens at the prompt's end belong to the answer: an empty
                        // thought that is given
  // Whether their authors have them learnt, where turns of this kind are.
  bool learns_prompt = true, learns_response = true;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_CONVERSATION_H_
