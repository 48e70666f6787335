// A message's content as a list of parts, as chat services' interfaces and LLaMA-Factory 1.0's data
// have it (0.9.5 refuses such rows):
//
//   {"type": "text", "text": "..."}                  "value" in place of "text" too; several are
//                                                    joined
//   {"type": "reasoning", "value": "..."}            a thought, <think> ... </think>, before what
//                                                    follows
//   {"type": "tool_call", "value": "{\"name\": ..., \"arguments\": ...}"}   a function call; the
//       message's texts are then left out
#ifndef MOONRING_DATA_FORMATS_CONTENT_PARTS_H_
#define MOONRING_DATA_FORMATS_CONTENT_PARTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "data/text/json/python_json.h"

namespace moonring::data {

struct ContentParts {
  std::string text;  // the thought, and the texts or the calls: a JSON array
  bool calls = false;
};

// Fails, naming the part (from 0), where it is of another type or its text is none.
absl::StatusOr<ContentParts> ReadContentParts(const OrderedJson& parts);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FORMATS_CONTENT_PARTS_H_
