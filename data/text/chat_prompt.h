// The prompt of a chat request (data/text/chat_request.h) as token ids, by the model's own template
// or by a named one.
//
// Fields of the request that are read in addition to messages and tools:
//
//   add_generation_prompt    false: the beginning of the assistant's turn is left out; default true
//   continue_final_message   true: the last message is the beginning of the answer, whose turn
//                            stays open
//   chat_template_kwargs     an object: further variables of the model's own template
//
// With a named template, the first two must have their defaults, and there are no variables.
#ifndef MOONRING_DATA_TEXT_CHAT_PROMPT_H_
#define MOONRING_DATA_TEXT_CHAT_PROMPT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/text/chat_template.h"
#include "data/text/json/python_json.h"
#include "data/text/model_template.h"

namespace moonring::data {

// The parts of a request that come from the configuration: the system text of conversations without
// one, and the template's variable enable_thinking.
struct ChatDefaults {
  std::string system;
  std::optional<bool> enable_thinking;
};

absl::StatusOr<std::vector<int32_t>> EncodeChat(const ModelTemplate& carried,
                                                const OrderedJson& request,
                                                const ChatDefaults& defaults);

absl::StatusOr<std::vector<int32_t>> EncodeChat(const ChatTemplate& named,
                                                const OrderedJson& request);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_CHAT_PROMPT_H_
