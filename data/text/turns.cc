#include "data/text/turns.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"

namespace moonring::data {
namespace {

absl::Status CheckLast(const std::vector<std::string>& texts) {
  if (texts.size() % 2 == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "messages: expected an odd number of texts, the user's first and last, got ", texts.size()));
}

}  // namespace

absl::StatusOr<Conversation> ConversationOf(const std::vector<std::string>& texts,
                                            const std::optional<std::string>& system) {
  RETURN_IF_ERROR(CheckLast(texts));
  Conversation conversation{.system = system.value_or("")};
  for (size_t i = 0; i < texts.size(); ++i)
    conversation.messages.push_back({i % 2 == 0 ? Role::kUser : Role::kAssistant, texts[i]});
  return conversation;
}

absl::StatusOr<OrderedJson> MessagesOf(const std::vector<std::string>& texts,
                                       const std::optional<std::string>& system) {
  RETURN_IF_ERROR(CheckLast(texts));
  OrderedJson messages = OrderedJson::array();
  if (system.value_or("") != "") messages.push_back({{"role", "system"}, {"content", *system}});
  for (size_t i = 0; i < texts.size(); ++i)
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", texts[i]}});
  return messages;
}

}  // namespace moonring::data
