// One message of a row {role, content, ...}, by the description's tags, and what it says beside its
// text (data/formats/message_fields.h). Fields that are not read are noted.
//
// An answer that has calls becomes a function call, with its text kept beside them. An answer
// without content has the text of its `refusal`, or an empty text where it has only a thought.
// Where the tags do not name these words, OpenAI's role `developer` is read as the system's, and
// its older role `function` as a tool's result.
//
// All fail naming `where`, the message's place, and the key.
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
  // `openai`: the format whose tools' results are messages of their own, and whose tool_calls
  // LLaMA-Factory reads. `noted` outlives it.
  MessageReader(const Tags& tags, bool openai, std::vector<std::string>& noted)
      : tags_(tags), openai_(openai), noted_(noted) {}

  // The role as the row writes it; none where it is null.
  absl::StatusOr<std::optional<std::string>> Word(const OrderedJson& message,
                                                  absl::string_view where) const;

  // What a row's word for a role means; none for null and other words, the system's among them.
  std::optional<Role> RoleOf(const std::optional<std::string>& word) const;

  // Whether a message of that role, the first one, is the system's.
  bool IsSystem(const std::optional<std::string>& word);

  absl::StatusOr<Message> Read(const OrderedJson& message, Role role, absl::string_view where);

  // Its text and mark into `conversation`.
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
