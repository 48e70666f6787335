// Parses JSON as Python's json.dump writes it, with the numbers NaN, Infinity and -Infinity, which
// standard JSON lacks.
#ifndef MOONRING_DATA_TEXT_JSON_SPECIAL_NUMBERS_H_
#define MOONRING_DATA_TEXT_JSON_SPECIAL_NUMBERS_H_

#include <nlohmann/json.hpp>

#include "absl/strings/string_view.h"
#include "base/text/ordered_json.h"

namespace moonring::data {

// Like base::OrderedJson::parse, with the same exceptions and error positions, but also accepts
// these three numbers. Cost: one more pass if the text contains one of the words, even inside a
// string.
base::OrderedJson ParseWithSpecialNumbers(absl::string_view text);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_JSON_SPECIAL_NUMBERS_H_
