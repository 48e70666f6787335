// Reads a message's content that is a list of parts, as in chat APIs and in LLaMA-Factory 1.0's
// data (0.9.5 rejects such rows):
//
//   {"type": "text", "text": "..."}          or "value"; several texts are concatenated; a plain
//                                            string in the list is a text too
//   {"type": "reasoning", "value": "..."}    reasoning, as in reasoning_content; also "thinking",
//                                            and a list of texts
//   {"type": "tool_call", "value": "{\"name\": ..., \"arguments\": ...}"}   a function call
//   {"type": "tool_use", "name": ..., "input": {...}}                       the same
//   {"type": "refusal", "refusal": "..."}    the text of a refusal, read as a text
#ifndef MOONRING_DATA_FORMATS_CONTENT_PARTS_H_
#define MOONRING_DATA_FORMATS_CONTENT_PARTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/text/json/python_json.h"

namespace moonring::data {

struct ContentParts {
  std::string text, thought;
  OrderedJson calls = OrderedJson::array();  // list of {"name", "arguments"}
};

// Errors name the part (from 0): an unsupported type, or a text that is not a string. `noted`: as
// in data/formats/message_fields.h.
absl::StatusOr<ContentParts> ReadContentParts(const OrderedJson& parts,
                                              std::vector<std::string>& noted);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FORMATS_CONTENT_PARTS_H_
