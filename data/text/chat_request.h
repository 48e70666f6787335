// Reads the messages and tools of a chat request in OpenAI's form, for a model's own template or
// for a named one.
//
// Request: {"messages": [..], "tools": [..]?, "tool_choice": ..?}; other fields are not read. If
// tool_choice is "none", there are no tools. A message is
//
//   role          system, developer (read as system), user, assistant or tool
//   content       a text, or a list of parts {"type": "text", "text"}, which are joined by line
//                 breaks; may be null if an assistant's message has tool_calls
//   tool_calls    of an assistant: [{"id", "type": "function", "function": {"name", "arguments"}}]
//   reasoning_content (or reasoning)   of an assistant: text
//   name, tool_call_id                 text
//
// A field that is null counts as absent. Errors: INVALID_ARGUMENT with the field's path, such as
// `messages[2].content[0].type`; UNIMPLEMENTED for parts other than text.
#ifndef MOONRING_DATA_TEXT_CHAT_REQUEST_H_
#define MOONRING_DATA_TEXT_CHAT_REQUEST_H_

#include "absl/status/statusor.h"
#include "data/text/conversation.h"
#include "data/text/json/python_json.h"

namespace moonring::data {

// A checked request, as Transformers' templates expect it: each content is one text, and arguments
// of tool calls are objects. `tools` is null if there are none.
struct ChatRequest {
  OrderedJson messages;
  OrderedJson tools;
};

absl::StatusOr<ChatRequest> ReadChatRequest(const OrderedJson& request);

// The request for a named template. Its system messages must come first, prompts and answers must
// take turns, and the last message must be the user's or a tool's; several results of tools in
// succession are one message. Errors: INVALID_ARGUMENT.
absl::StatusOr<Conversation> ConversationOfChat(const ChatRequest& request);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_CHAT_REQUEST_H_
