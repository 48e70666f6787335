// Converts a prompt given as alternating texts, the user's first, to a conversation for a chat
// template, or to messages for a model's own template.
#ifndef MOONRING_DATA_TEXT_TURNS_H_
#define MOONRING_DATA_TEXT_TURNS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/text/conversation.h"
#include "data/text/json/python_json.h"

namespace moonring::data {

// Both functions return INVALID_ARGUMENT if the number of texts is even, because the last text must
// be the user's.
absl::StatusOr<Conversation> ConversationOf(const std::vector<std::string>& texts,
                                            const std::optional<std::string>& system);

// A list of {role, content}; an empty system text is omitted.
absl::StatusOr<OrderedJson> MessagesOf(const std::vector<std::string>& texts,
                                       const std::optional<std::string>& system);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TURNS_H_
