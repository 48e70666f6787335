// A prompt given as texts that alternate, the user's first: as a conversation for a chat template,
// and as messages for a template that a model carries.
#ifndef MOONRING_DATA_TEXT_TURNS_H_
#define MOONRING_DATA_TEXT_TURNS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/text/conversation.h"
#include "data/text/json/python_json.h"

namespace moonring::data {

// INVALID_ARGUMENT, from both, where the number of texts is even: then the user's is not the last,
// and there is nothing to answer.
absl::StatusOr<Conversation> ConversationOf(const std::vector<std::string>& texts,
                                            const std::optional<std::string>& system);

// A list of {role, content}; an empty system text is left out.
absl::StatusOr<OrderedJson> MessagesOf(const std::vector<std::string>& texts,
                                       const std::optional<std::string>& system);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TURNS_H_
