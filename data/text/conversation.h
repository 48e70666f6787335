// A conversation, as row formats produce it and chat templates consume it, and its encoded turns.
#ifndef MOONRING_DATA_TEXT_CONVERSATION_H_
#define MOONRING_DATA_TEXT_CONVERSATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moonring::data {

// Messages of the user and tool results (observations) are prompts; the assistant's texts and
// function calls (as JSON) are answers.
enum class Role { kUser, kAssistant, kObservation, kFunctionCall };

inline bool IsAnswer(Role role) { return role == Role::kAssistant || role == Role::kFunctionCall; }

// Training mark of a message in the data (weight, loss, trainable): true: trained, false: not
// trained, nullopt: not specified.
using LearnMark = std::optional<bool>;

struct Message {
  Role role;
  std::string content;  // of a function call: the calls, as JSON
  // `thought`: an answer's reasoning from a separate field. `said`: text next to a function call.
  // Both may be empty. (The content may contain both as well, in the form the data has them.)
  std::string thought = "";
  std::string said = "";
  LearnMark mark = std::nullopt;

  bool learnt() const { return mark.value_or(true); }
};

// Prompts and answers alternate. An empty system text means the template's default. Tools are a
// string with a JSON array, or empty.
struct Conversation {
  std::string system;
  std::string tools;
  std::vector<Message> messages;
  LearnMark system_mark = std::nullopt;
};

// One turn as token ids: the prompt and its response.
struct EncodedTurn {
  std::vector<int32_t> prompt;
  std::vector<int32_t> response;
  // Number of tokens at the prompt's end that belong to the answer (empty reasoning)
  int64_t opening = 0;
  // False if the data marks the prompt or the response as not trained.
  bool learns_prompt = true, learns_response = true;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_CONVERSATION_H_
