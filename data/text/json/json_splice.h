// Changing one field of a large JSON text without writing the rest anew: a tokenizer.json has
// megabytes of vocabulary in an order that means something.
#ifndef MOONRING_DATA_TEXT_JSON_JSON_SPLICE_H_
#define MOONRING_DATA_TEXT_JSON_JSON_SPLICE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace moonring::data {

// `object`, a well-formed JSON object, with `value` (JSON text) as its field `key`: in the old
// value's place, or first where there is none. Every other byte stays. Cost: linear.
std::string WithField(absl::string_view object, absl::string_view key, absl::string_view value);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_JSON_JSON_SPLICE_H_
