// JSON as Python's json.dump writes it: NaN, Infinity and -Infinity where a number may stand, which
// JSON has no words for.
#ifndef MOONRING_DATA_TEXT_JSON_SPECIAL_NUMBERS_H_
#define MOONRING_DATA_TEXT_JSON_SPECIAL_NUMBERS_H_

#include <nlohmann/json.hpp>

#include "absl/strings/string_view.h"
#include "base/text/ordered_json.h"

namespace moonring::data {

// As base::OrderedJson::parse, and throws as it does, with the same places; beside it those three
// are numbers. Cost: one pass more where the text has one of these words, in a string even.
base::OrderedJson ParseWithSpecialNumbers(absl::string_view text);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_JSON_SPECIAL_NUMBERS_H_
