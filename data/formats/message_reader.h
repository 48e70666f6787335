// Reads one message {role, content, ...} of a row, with the key and role names in the description's
// tags, and its other fields (data/formats/message_fields.h). Fields that are not read are noted.
//
// An answer with calls becomes a function call and keeps its text. An answer without content takes
// the text of its `refusal`, or an empty text if it has only reasoning. Unless the tags use these
// names, OpenAI's role `developer` is read as the system role, and its older role `function` as a
// tool's result.
//
// Errors name `where`, the message's position, and the key.
#ifndef MOONRING_DATA_FORMATS_MESSAGE_READER_H_
#define MOONRING_DATA_FORMATS_MESSAGE_READER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/description/dataset_info.h"
#include "data/formats/content_parts.h"
#include "data/text/conversation.h"
#include "data/text/json/python_json.h"

namespace moonring::data {

class MessageReader {
 public:
  // `openai`: the format in which tool results are separate messages and LLaMA-Factory reads
  // tool_calls. `noted` must outlive the reader.
  MessageReader(const Tags& tags, bool openai, std::vector<std::string>& noted)
      : tags_(tags), openai_(openai), noted_(noted) {}

  // The role as the row writes it; nullopt if it is null.
  absl::StatusOr<std::optional<std::string>> Word(const OrderedJson& message,
                                                  absl::string_view where) const;

  // Maps a row's role name to a Role; nullopt for null, unknown names and the system role.
  std::optional<Role> RoleOf(const std::optional<std::string>& word) const;

  // Whether a first message with this role is the system message.
  bool IsSystem(const std::optional<std::string>& word);

  absl::StatusOr<Message> Read(const OrderedJson& message, Role role, absl::string_view where);

  // Stores the text of a system message in `conversation`, and whether it is marked as trained.
  absl::Status ReadSystem(const OrderedJson& message, absl::string_view where,
                          Conversation& conversation);

 private:
  bool IsTag(absl::string_view word) const;
  absl::StatusOr<std::optional<ContentParts>> FindContent(const OrderedJson& message) const;
  absl::Status ReadAnswer(const OrderedJson& message, bool has_content, ContentParts content,
                          Message& read);

  const Tags& tags_;
  const bool openai_;
  std::vector<std::string>& noted_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FORMATS_MESSAGE_READER_H_
