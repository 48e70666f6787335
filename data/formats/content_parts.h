// A message's content as a list of parts, as chat services' interfaces and LLaMA-Factory 1.0's data
// have it (0.9.5 refuses such rows):
//
//   {"type": "text", "text": "..."}                  "value" in place of "text" too; several are
//                                                    joined; a text alone in the list is one
//   {"type": "reasoning", "value": "..."}            a thought, as in reasoning_content; "thinking"
//                                                    too, and as a list of texts
//   {"type": "tool_call", "value": "{\"name\": ..., \"arguments\": ...}"}   a function call
//   {"type": "tool_use", "name": ..., "input": {...}}                       the same
//   {"type": "refusal", "refusal": "..."}            the words of a refusal: a text
#ifndef MOONRING_DATA_FORMATS_CONTENT_PARTS_H_
#define MOONRING_DATA_FORMATS_CONTENT_PARTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/text/json/python_json.h"

namespace moonring::data {

struct ContentParts {
  std::string text, thought;
  OrderedJson calls = OrderedJson::array();  // of {"name", "arguments"}
};

// Fails, naming the part (from 0), where it is of another type or its text is none. `noted`: as in
// data/formats/message_fields.h.
absl::StatusOr<ContentParts> ReadContentParts(const OrderedJson& parts,
                                              std::vector<std::string>& noted);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FORMATS_CONTENT_PARTS_H_
