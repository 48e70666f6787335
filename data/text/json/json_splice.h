// Replaces one field of a large JSON text without rewriting the rest: the order of a
// tokenizer.json's vocabulary is significant and must be preserved.
#ifndef MOONRING_DATA_TEXT_JSON_JSON_SPLICE_H_
#define MOONRING_DATA_TEXT_JSON_JSON_SPLICE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace moonring::data {

// Returns `object`, a well-formed JSON object, with its field `key` set to `value` (JSON text). The
// field's value is replaced if the key exists; otherwise the field is inserted as the first one.
// All other bytes are unchanged. Cost: linear.
std::string WithField(absl::string_view object, absl::string_view key, absl::string_view value);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_JSON_JSON_SPLICE_H_
